import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Ids } from '../ports/ids.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'sk_live_';
/** 62^43 > 2^256. */
const SECRET_LENGTH = 43;
/** 36^7 > 2^32. */
const CHECKSUM_LENGTH = 7;
const KEY = new RegExp(`^${PREFIX}[0-9A-Za-z]{${SECRET_LENGTH}}[0-9a-z]{${CHECKSUM_LENGTH}}$`);

function base62(value: bigint, length: number): string {
  let digits = '';
  for (let rest = value; digits.length < length; rest /= 62n) digits = ALPHABET[Number(rest % 62n)] + digits;
  return digits;
}

/** Every request checks one, so it is made of what is native. */
const checksum = (text: string): string => crc32(text).toString(36).padStart(CHECKSUM_LENGTH, '0');

/** A new user key: `sk_live_`, 256 random bits, and a checksum that lets scanners and us tell a key from a typo offline. */
export function newKey(ids: Ids): string {
  const body = PREFIX + base62(BigInt(`0x${Buffer.from(ids.randomBytes(32)).toString('hex')}`), SECRET_LENGTH);
  return body + checksum(body);
}

/** Whether `text` has the form and the checksum of a key; says nothing of whether it was ever issued. */
export function isKey(text: string): boolean {
  return KEY.test(text) && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** What is stored of a key. A plain hash suffices: 256 random bits cannot be guessed. */
export const hashKey = (key: string): string => hash('sha256', key);

/** What is shown of a key after its creation. */
export const prefixOf = (key: string): string => key.slice(0, 12);
