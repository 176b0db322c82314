import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Ids } from '#core/ports/ids.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 7 base-36 digits hold 32 bits: 36^7 > 2^32. */
const CHECKSUM_LENGTH = 7;
const USER_PREFIX = 'sk_live_';
const SECRET_BYTES = 32;

/** Number of base-62 digits that hold this many bytes. */
const digitsFor = (bytes: number): number => Math.ceil((bytes * 8) / Math.log2(62));

/**
 * Digits per step: numbers of this length are exact in double arithmetic, which takes a tenth of the time of BigInt.
 */
const PART_DIGITS = 8;
const PART = 62n ** BigInt(PART_DIGITS);

function base62(value: bigint, length: number): string {
  let digits = '';
  for (let rest = value; digits.length < length; rest /= PART) {
    let part = Number(rest % PART);
    for (let count = 0; count < PART_DIGITS; count++) {
      digits = ALPHABET[part % 62] + digits;
      part = Math.floor(part / 62);
    }
  }
  return digits.slice(-length);
}

/** Every request checks one key, so this uses native functions only. */
const checksum = (text: string): string => crc32(text).toString(36).padStart(CHECKSUM_LENGTH, '0');

/**
 * Encodes a prefix, the letter of a cell, bytes in base 62, and a checksum: secret scanners, the platform, and whoever routes
 * by the letter recognize a key without a lookup. A key without a letter is as old as the platform's first days.
 */
export function encodeKey(prefix: string, cell: string, bytes: Uint8Array): string {
  const body = prefix + cell + base62(BigInt(`0x${Buffer.from(bytes).toString('hex')}`), digitsFor(bytes.length));
  return body + checksum(body);
}

/** Whether `text` has the format of a key with this prefix and number of bytes. The key need not exist. */
export function isKeyOf(prefix: string, bytes: number, text: string): boolean {
  if (!text.startsWith(prefix)) return false;
  const letters = text.length - prefix.length - digitsFor(bytes) - CHECKSUM_LENGTH;
  if (letters !== 0 && !(letters === 1 && /[a-z]/.test(text.charAt(prefix.length)))) return false;
  const body = text.slice(0, -CHECKSUM_LENGTH);
  return /^[0-9A-Za-z]+$/.test(text.slice(prefix.length)) && checksum(body) === text.slice(-CHECKSUM_LENGTH);
}

/** Returns the bytes of a key that {@link encodeKey} created; `undefined` for any other text. */
export function decodeKey(prefix: string, bytes: number, text: string): Uint8Array | undefined {
  if (!isKeyOf(prefix, bytes, text)) return undefined;
  let value = 0n;
  for (const digit of text.slice(0, -CHECKSUM_LENGTH).slice(-digitsFor(bytes))) {
    value = value * 62n + BigInt(ALPHABET.indexOf(digit));
  }
  const hex = value.toString(16).padStart(bytes * 2, '0');
  return hex.length === bytes * 2 ? Buffer.from(hex, 'hex') : undefined;
}

/** Creates a user key: `sk_live_`, the letter of the cell, and 256 random bits. */
export const newKey = (ids: Pick<Ids, 'cell' | 'randomBytes'>): string =>
  encodeKey(USER_PREFIX, ids.cell, ids.randomBytes(SECRET_BYTES));

/** Whether `text` has the format and a valid checksum of a user key. */
export const isKey = (text: string): boolean => isKeyOf(USER_PREFIX, SECRET_BYTES, text);

/** Returns the hash under which a key is stored. A plain hash suffices: 256 random bits cannot be guessed. */
export const hashKey = (key: string): string => hash('sha256', key);

/** Returns the part of a key that is shown after its creation. */
export const prefixOf = (key: string): string => key.slice(0, 12);
