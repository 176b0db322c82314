import { hash } from 'node:crypto';
import type { Json } from '#core/base/json.ts';
import { endOf, startOf } from '#core/base/text.ts';
import { Matcher } from './matcher.ts';

/** Shorter values are not masked: they protect nothing, and masking them would garble ordinary text. */
const MIN_LENGTH = 4;
/**
 * Minimum length of a line of a secret (such as a PEM key) that is also masked alone: programs print them line by line.
 */
const MIN_LINE_LENGTH = 16;

/** Encodings of shorter values occur in ordinary text by chance. */
const MIN_ENCODED_BYTES = 8;

/** Escapes non-ASCII characters as Python's `json.dumps` does. */
const escapeNonAscii = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Returns the forms in which programs print a value without meaning to hide it (`docs/interface/runs.md#masking`). */
function formsOf(value: string): Set<string> {
  const forms = PLAIN.test(value) ? new Set([value]) : escapedForms(value);
  const bytes = Buffer.from(value);
  if (bytes.byteLength < MIN_ENCODED_BYTES) return forms;
  const hex = bytes.toString('hex');
  for (const form of [hex, hex.toUpperCase(), ...inBase64(bytes)]) forms.add(form);
  return forms;
}

/** Matches values that no encoder escapes, as most keys are. */
const PLAIN = /^[\w.-]+$/;

function escapedForms(value: string): Set<string> {
  const quoted = inJson(value);
  // Python and PHP write JSON in ASCII.
  const json = [quoted, escapeNonAscii(quoted)];
  return new Set([
    value,
    ...json,
    // PHP also escapes slashes.
    ...json.map((form) => form.replaceAll('/', '\\/')),
    inJson(quoted),
    value.replaceAll('\\', '\\\\').replaceAll("'", "\\'"),
    // Shell arguments: by hand, by Python's shlex, by Bash's printf %q.
    value.replaceAll("'", `'\\''`),
    value.replaceAll("'", `'"'"'`),
    value.replace(/[^\w@%+=:,./\u0080-\uffff-]/g, '\\$&'),
    ...inUrl(value),
    ...QUOTES_IN_HTML.map((quotes) => value.replace(/[&<>"']/g, (char) => ({ ...ENTITIES, ...quotes })[char]!)),
  ]);
}

/** Punctuation that URL and form encoders leave unescaped, the most common encoders first. */
const KEPT_IN_URL = [
  // encodeURIComponent of JavaScript.
  "-_.!~*'()",
  // urllib.parse.quote of Python.
  '-_.~/',
  // urllib.parse.quote_plus and urlencode of Python, QueryEscape of Go, rawurlencode of PHP.
  '-_.~',
  // URLSearchParams of JavaScript, URLEncoder of Java.
  '-_.*',
  // urlencode of PHP.
  '-_.',
  // encodeURI of JavaScript.
  "-_.!~*'();/?:@&=+$,#",
  // PathEscape of Go.
  '-_.~$&+=:@',
];
/** Longer values get only the most common forms: all forms of an entire vault must fit into memory. */
const MAX_URL_VARIETY = 128;

/**
 * Returns the forms of a value in URLs: programs differ in unescaped punctuation, hex case and the encoding of spaces.
 */
function inUrl(value: string): string[] {
  // Percent-encodes everything but letters and digits, as UTF-8.
  const encoded = encodeURIComponent(value.toWellFormed()).replace(/[-_.!~*'()]/g, percentOf);
  const sets = value.length > MAX_URL_VARIETY ? KEPT_IN_URL.slice(0, 3) : KEPT_IN_URL;
  return sets.flatMap((kept) => {
    const upper = encoded.replace(/%[0-7][0-9A-F]/g, (code) => (kept.includes(charOf(code)) ? charOf(code) : code));
    const lower = upper.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());
    return [upper, lower, upper.replaceAll('%20', '+'), lower.replaceAll('%20', '+')];
  });
}

const percentOf = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
const charOf = (percent: string): string => String.fromCharCode(Number.parseInt(percent.slice(1), 16));

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
/** Quotes as escaped by most template engines, Python, Go and PHP, and unescaped as outside attributes. */
const QUOTES_IN_HTML: readonly Readonly<Record<string, string>>[] = [
  { '"': '&quot;', "'": '&#39;' },
  { '"': '&quot;', "'": '&#x27;' },
  { '"': '&#34;', "'": '&#39;' },
  { '"': '&quot;', "'": '&#039;' },
  { '"': '"', "'": "'" },
];

/**
 * Returns the Base64 characters that depend only on these bytes, at each of the three offsets in a group of three: in
 * an
 * `Authorization: Basic` header, for example, the user name precedes them.
 */
function inBase64(bytes: Uint8Array): string[] {
  const padded = Buffer.alloc(2 + bytes.byteLength);
  padded.set(bytes, 2);
  return [0, 1, 2].flatMap((before) => {
    const text = padded.toString('base64', 2 - before);
    const whole = Math.floor(((before + bytes.byteLength) * 8) / 6);
    const own = text.slice(Math.ceil((before * 8) / 6), whole);
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/** Returns the parts of a secret that are masked: the value itself and its long lines. */
function partsOf(value: string): string[] {
  if (value.length < MIN_LENGTH) return [];
  if (PLAIN.test(value)) return [value];
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const parts = new Set([value, value.trim(), ...lines.filter((line) => line.length >= MIN_LINE_LENGTH)]);
  return [...parts].filter((part) => part.length >= MIN_LENGTH);
}

type Parts = readonly (readonly [part: string, mark: string])[];

interface Needles {
  readonly matcher: Matcher;
  /** Replacement of each needle. */
  readonly marks: readonly string[];
}

/** LRU cache, least recently used first; most runs have the same secrets as earlier ones. Key: a hash of the parts. */
const lately = new Map<string, Needles>();
/** Maximum size of {@link lately} in characters, at about 20 bytes of memory each. */
const MAX_CHARACTERS = 2_000_000;
let characters = 0;

function needlesOf(parts: Parts): Needles {
  const key = hash('sha256', JSON.stringify(parts), 'base64');
  const known = lately.get(key);
  if (known !== undefined) {
    lately.delete(key);
    lately.set(key, known);
    return known;
  }
  const marks = new Map<string, string>();
  for (const [part, mark] of parts) for (const needle of formsOf(part)) marks.set(needle, mark);
  const needles = { matcher: new Matcher([...marks.keys()]), marks: [...marks.values()] };
  lately.set(key, needles);
  characters += needles.matcher.size;
  for (const [oldest, { matcher }] of lately) {
    // A single large vault may exceed the limit.
    if (characters <= MAX_CHARACTERS || lately.size === 1) break;
    lately.delete(oldest);
    characters -= matcher.size;
  }
  return needles;
}

/** Replaces the values of secrets by `[secret NAME]` in everything that is stored or shown of a run. */
export class SecretMask {
  readonly #parts: Parts;
  /** Length of the shortest part; no encoded form is shorter than its part. */
  readonly #shortest: number;
  #made: Needles | undefined;

  constructor(secrets: Readonly<Record<string, string>>) {
    this.#parts = Object.entries(secrets).flatMap(([name, value]) =>
      partsOf(value).map((part) => [part, `[secret ${name}]`] as const),
    );
    this.#shortest = this.#parts.reduce((least, [part]) => Math.min(least, part.length), Number.POSITIVE_INFINITY);
  }

  /** Built lazily for the first text that is long enough: many runs have none. */
  get #needles(): Needles {
    this.#made ??= needlesOf(this.#parts);
    return this.#made;
  }

  text(text: string): string {
    // Most texts are shorter than any secret.
    if (text.length < this.#shortest) return text;
    const masking = this.begin();
    const settled = masking.push(text);
    return settled + masking.end();
  }

  /** Starts masking a text that arrives in pieces. */
  begin(): Masking {
    return this.#parts.length === 0 ? UNMASKED : new MatchedMasking(this.#needles);
  }

  /** Masks strings and member names at any depth. */
  json(value: Json): Json {
    if (this.#parts.length === 0) return value;
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'number' || typeof value === 'boolean') {
      const masked = this.text(String(value));
      return masked === String(value) ? value : masked;
    }
    if (value === null) return value;
    return Array.isArray(value) ? this.#list(value) : this.#object(value);
  }

  /** Returns the same list or object if it contains no secret, as is usual. */
  #list(value: Json[]): Json[] {
    let masked: Json[] | undefined;
    for (const [index, element] of value.entries()) {
      const own = this.json(element);
      if (own === element) continue;
      masked ??= [...value];
      masked[index] = own;
    }
    return masked ?? value;
  }

  #object(value: { [name: string]: Json }): Json {
    const entries = Object.entries(value);
    let isSame = true;
    for (const entry of entries) {
      const [name, member] = entry;
      entry[0] = this.text(name);
      entry[1] = this.json(member);
      isSame &&= entry[0] === name && entry[1] === member;
    }
    return isSame ? value : Object.fromEntries(entries);
  }
}

/** Masks a text that arrives in pieces. The result does not depend on where the text is split. */
interface Masking {
  /** Returns the text that can be shown now, holding back a possible beginning of a secret. */
  push(piece: string): string;
  /** Returns the remaining text. */
  end(): string;
}

const UNMASKED: Masking = { push: (piece) => piece, end: () => '' };

/** Range of overlapping secrets. They share the mark of the longest one. */
interface Region {
  start: number;
  end: number;
  mark: string;
  /** Length of the longest needle in the region. */
  length: number;
}

/** Takes linear time for each piece, and holds back at most the length of a secret's longest form. */
class MatchedMasking implements Masking {
  readonly #needles: Needles;
  #state = 0;
  /**
   * Text held back. Positions count from the beginning of the text; the first of these characters is at {@link
   * #heldFrom}.
   */
  #held = '';
  #heldFrom = 0;
  /** Secrets found but not shown yet, in order: a longer match that starts earlier may still be found. */
  #regions: Region[] = [];
  #shown: string[] = [];

  constructor(needles: Needles) {
    this.#needles = needles;
  }

  push(piece: string): string {
    const { matcher } = this.#needles;
    const from = this.#heldFrom + this.#held.length;
    this.#held += piece;
    let state = this.#state;
    for (let index = 0; index < piece.length; index++) {
      state = matcher.next(state, piece.charCodeAt(index));
      if (state !== 0 && matcher.endOf(state) !== 0) this.#found(state, from + index + 1);
    }
    this.#state = state;
    this.#settle(from + piece.length - matcher.depthOf(state));
    return this.#taken();
  }

  end(): string {
    this.#state = 0;
    this.#settle(this.#heldFrom + this.#held.length);
    return this.#taken();
  }

  #found(state: number, end: number): void {
    const { matcher, marks } = this.#needles;
    const length = matcher.endOf(state);
    const found: Region = { start: end - length, end, mark: marks[matcher.needleOf(state)]!, length };
    for (let last = this.#regions.at(-1); last !== undefined && last.end > found.start; last = this.#regions.at(-1)) {
      found.start = Math.min(found.start, last.start);
      if (last.length >= found.length) Object.assign(found, { mark: last.mark, length: last.length });
      this.#regions.pop();
    }
    this.#regions.push(found);
  }

  /** Emits everything before a position, since no later match can start before it. */
  #settle(position: number): void {
    const open = this.#regions.findIndex(({ end }) => end > position);
    const settled = this.#regions.splice(0, open < 0 ? this.#regions.length : open);
    for (const { start, end, mark } of settled) {
      this.#showUntil(start);
      this.#shown.push(mark);
      this.#drop(end);
    }
    const next = this.#regions[0]?.start ?? position;
    this.#showUntil(Math.min(next, position));
    // The region may still grow; the text that it covers so far can be dropped.
    this.#drop(position);
  }

  #showUntil(position: number): void {
    if (position > this.#heldFrom) this.#shown.push(this.#held.slice(0, position - this.#heldFrom));
    this.#drop(position);
  }

  #drop(position: number): void {
    if (position <= this.#heldFrom) return;
    this.#held = this.#held.slice(position - this.#heldFrom);
    this.#heldFrom = position;
  }

  #taken(): string {
    const [only = '', ...more] = this.#shown;
    this.#shown = [];
    return more.length === 0 ? only : only + more.join('');
  }
}

/** Masks text that arrives in pieces of bytes or characters. */
export class LiveMask {
  readonly #masking: Masking;
  /** Created on the first bytes: most text arrives as strings. */
  #decoder: InstanceType<typeof TextDecoder> | undefined;

  constructor(mask: SecretMask) {
    this.#masking = mask.begin();
  }

  /** Returns the text that may be shown now, possibly none. A piece may end inside a UTF-8 character. */
  push(piece: string | Uint8Array): string {
    if (typeof piece === 'string') return this.#masking.push(piece);
    this.#decoder ??= new TextDecoder();
    return this.#masking.push(this.#decoder.decode(piece, { stream: true }));
  }

  /** Returns the text that is still held back. */
  end(): string {
    const rest = this.#masking.push(this.#decoder?.decode() ?? '');
    return rest + this.#masking.end();
  }
}

/** Limit for each stream of a run's log (`docs/interface/runs.md#records`). */
const MAX_LOG_BYTES = 10 * 1024;

/** Truncates a log to its size limit, keeping its beginning and its end, where errors are. */
export const shortenLog = (text: string): string => shortenTo(MAX_LOG_BYTES, text);

/** Returns the text unchanged if it fits, otherwise its beginning and end with a note about the bytes left out. */
export function shortenTo(maxBytes: number, text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= maxBytes) return text;
  const note = `\n[... ${bytes.byteLength - maxBytes} bytes left out ...]\n`;
  const head = startOf(bytes, maxBytes / 4);
  const tail = endOf(bytes, maxBytes - head.byteLength - Buffer.byteLength(note));
  return Buffer.concat([head, Buffer.from(note), tail]).toString();
}
