import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';

/** First bytes -> what the file is. */
const SIGNATURES = [
  ['89504e470d0a1a0a', 'image/png'],
  ['ffd8ff', 'image/jpeg'],
  ['47494638', 'image/gif'],
  ['255044462d', 'application/pdf'],
  ['504b0304', 'application/zip'],
  ['1f8b', 'application/gzip'],
  ['7f454c46', 'application/x-elf'],
];
const MAX_FINDINGS = 20;

function fail(message) {
  process.stdout.write(JSON.stringify({ error: message }));
  process.exit(1);
}

/** `undefined` when the bytes are not text. */
function decode(bytes) {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function isJson(content) {
  try {
    JSON.parse(content);
    return true;
  } catch {
    return false;
  }
}

function typeOf(bytes, content) {
  if (bytes.length === 0) return 'empty';
  const head = bytes.subarray(0, 8).toString('hex');
  const known = SIGNATURES.find(([signature]) => head.startsWith(signature));
  if (known) return known[1];
  if (content === undefined) return 'application/octet-stream';
  if (/^\s*[[{]/.test(content) && isJson(content)) return 'application/json';
  if (/^\s*<(!doctype html|html)/i.test(content)) return 'text/html';
  const [first = '', second = ''] = content.split(/\r?\n/, 2);
  const commas = (line) => line.split(',').length;
  return commas(first) > 1 && commas(first) === commas(second) ? 'text/csv' : 'text/plain';
}

/** ISO 7064: the account number read as one large number leaves 1. */
function isIban(candidate) {
  const compact = candidate.replaceAll(' ', '');
  const digits = (compact.slice(4) + compact.slice(0, 4)).replace(/[A-Z]/g, (letter) => letter.charCodeAt(0) - 55);
  return compact.length >= 15 && compact.length <= 34 && BigInt(digits) % 97n === 1n;
}

/** Luhn's check digit. */
function isCard(candidate) {
  const digits = [...candidate.replace(/[ -]/g, '')].reverse().map(Number);
  const sum = digits.reduce((total, digit, index) => {
    const doubled = digit * 2;
    return total + (index % 2 === 0 ? digit : doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return digits.length >= 13 && digits.length <= 19 && sum % 10 === 0;
}

const KINDS = [
  ['email', /[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}/g, () => true],
  ['iban', /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b/g, isIban],
  ['card', /\b\d(?:[ -]?\d){12,18}\b/g, isCard],
];

/** Shows that there is something without passing it on. */
const redact = (value) => `${value.slice(0, 2)}...${value.slice(-2)}`;

function findPersonalData(lines) {
  const found = [];
  for (const [index, line] of lines.entries()) {
    for (const [kind, pattern, holds] of KINDS) {
      for (const [value] of line.slice(0, 10_000).matchAll(pattern)) {
        if (holds(value)) found.push({ kind, line: index + 1, excerpt: redact(value) });
        if (found.length === MAX_FINDINGS) return found;
      }
    }
  }
  return found;
}

function inspect({ path, original_name: name }) {
  const bytes = readFileSync(path);
  const content = decode(bytes);
  const lines = content?.split(/\r?\n/) ?? [];
  return {
    name: name || 'unnamed',
    type: typeOf(bytes, content),
    size_bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    ...(content !== undefined && {
      lines: content === '' ? 0 : lines.length - (lines.at(-1) === '' ? 1 : 0),
      words: content.split(/\s+/).filter(Boolean).length,
    }),
    personal_data: findPersonalData(lines),
  };
}

let input;
try {
  input = JSON.parse(await text(process.stdin));
} catch {
  fail('the input is not JSON');
}
if (!Array.isArray(input?.files) || input.files.length === 0) fail('upload at least one file, as the part "files[]"');
const files = input.files.map(inspect);
const byHash = Map.groupBy(files, (file) => file.sha256);
const copies = [...byHash.values()].filter((same) => same.length > 1).map((same) => same.map((file) => file.name));
const personal = files.filter((file) => file.personal_data.length > 0);
const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;
const summary = `${count(files.length, 'file')}, ${count(personal.length, 'file')} with what may be personal data, ${count(copies.length, 'group')} of copies`;
process.stdout.write(JSON.stringify({ files, copies, summary }));
