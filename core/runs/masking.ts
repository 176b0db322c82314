import type { Json } from '#core/base/json.ts';
import { endOf, startOf } from '#core/base/text.ts';

/** Shorter values are not masked: they protect nothing, and masking them would destroy ordinary text. */
const MIN_LENGTH = 4;
/** Lines of a secret (a PEM key) from this length on are also masked one by one: programs print them line by line. */
const MIN_LINE_LENGTH = 16;

/** The encodings of shorter values are found in ordinary text. */
const MIN_ENCODED_BYTES = 8;

/** Escapes as Python's `json.dumps` does. */
const escapeNonAscii = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** The forms in which programs print a value without meaning to hide it (`docs/interface/runs.md#masking`). */
function formsOf(value: string): Set<string> {
  const forms = PLAIN.test(value) ? new Set([value]) : escapedForms(value);
  const bytes = Buffer.from(value);
  if (bytes.byteLength < MIN_ENCODED_BYTES) return forms;
  const hex = bytes.toString('hex');
  for (const form of [hex, hex.toUpperCase(), ...inBase64(bytes)]) forms.add(form);
  return forms;
}

/** Characters that nothing escapes: most keys have no others. */
const PLAIN = /^[\w.-]+$/;

function escapedForms(value: string): Set<string> {
  const quoted = inJson(value);
  const percent = inUrl(value);
  return new Set([
    value,
    quoted,
    // Python writes JSON in ASCII.
    escapeNonAscii(quoted),
    inJson(quoted),
    value.replaceAll('\\', '\\\\').replaceAll("'", "\\'"),
    value.replaceAll("'", `'\\''`),
    ...percent,
    ...percent.map((form) => form.replaceAll('%20', '+')),
    value.replace(/[&<>"']/g, (char) => ENTITIES[char]!),
  ]);
}

/** JavaScript leaves some marks as they are, forms and Python encode them; the case of the digits is free. */
function inUrl(value: string): string[] {
  const loose = encodeURIComponent(value.toWellFormed());
  const strict = loose.replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  const inLowerCase = (form: string) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());
  return [loose, strict, inLowerCase(loose), inLowerCase(strict)];
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * The characters of Base64 text that depend on these bytes alone, wherever they stand in it: behind 0, 1 or 2 bytes of a group
 * of three, such as the user name of an `Authorization: Basic` header.
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

/** What of a secret is masked for itself: the whole, and its long lines. */
function partsOf(value: string): string[] {
  if (value.length < MIN_LENGTH) return [];
  if (PLAIN.test(value)) return [value];
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const parts = new Set([value, value.trim(), ...lines.filter((line) => line.length >= MIN_LINE_LENGTH)]);
  return [...parts].filter((part) => part.length >= MIN_LENGTH);
}

type Parts = readonly (readonly [part: string, mark: string])[];

interface Needles {
  /** Longest first: a secret may be part of another. */
  readonly replacements: readonly (readonly [needle: string, mark: string])[];
  /** First characters of all needles. */
  readonly beginnings: ReadonlySet<number>;
}

/** Most runs have the keys of earlier ones. Key: the parts. The oldest is the first. */
const lately = new Map<string, Needles>();
const MAX_LATELY = 200;
const MAX_KEY_CHARACTERS = 2048;

function needlesOf(parts: Parts): Needles {
  const key = JSON.stringify(parts);
  const known = lately.get(key);
  if (known !== undefined) return known;
  const marks = new Map<string, string>();
  for (const [part, mark] of parts) for (const needle of formsOf(part)) marks.set(needle, mark);
  const replacements = [...marks].sort(([a], [b]) => b.length - a.length);
  const needles = { replacements, beginnings: new Set(replacements.map(([needle]) => needle.charCodeAt(0))) };
  if (key.length <= MAX_KEY_CHARACTERS) {
    if (lately.size >= MAX_LATELY) lately.delete(lately.keys().next().value!);
    lately.set(key, needles);
  }
  return needles;
}

/** Replaces the values of secrets by `[secret NAME]` in everything that is kept or shown of a run. */
export class SecretMask {
  readonly #parts: Parts;
  /** No form of a part is shorter than the part. */
  readonly #shortest: number;
  #made: Needles | undefined;

  constructor(secrets: Readonly<Record<string, string>>) {
    this.#parts = Object.entries(secrets).flatMap(([name, value]) =>
      partsOf(value).map((part) => [part, `[secret ${name}]`] as const),
    );
    this.#shortest = this.#parts.reduce((least, [part]) => Math.min(least, part.length), Number.POSITIVE_INFINITY);
  }

  /** Made for the first text that is long enough: many runs have none. */
  get #needles(): Needles {
    this.#made ??= needlesOf(this.#parts);
    return this.#made;
  }

  text(text: string): string {
    // Most texts are shorter than any secret.
    if (text.length < this.#shortest) return text;
    return this.#needles.replacements.reduce((masked, [needle, mark]) => masked.replaceAll(needle, mark), text);
  }

  /** Length of the part of a growing text that can be masked now: it ends before a possible beginning of a secret. */
  settledLength(text: string): number {
    let settled = text.length;
    const { replacements } = this.#needles;
    const longest = replacements[0]?.[0].length ?? 0;
    for (let start = Math.max(0, text.length - longest + 1); start < settled; start++) {
      if (this.#mayBeginAt(start, text)) settled = start;
    }
    if (text.length < this.#shortest) return settled;
    // The cut must not go through a complete secret either: neither part would be recognised.
    for (let before = -1; before !== settled; ) {
      before = settled;
      for (const [needle] of replacements) {
        const at = text.lastIndexOf(needle, settled - 1);
        if (at >= 0 && at + needle.length > settled) settled = at;
      }
    }
    return settled;
  }

  /** Whether the rest of the text is the beginning of a secret. */
  #mayBeginAt(start: number, text: string): boolean {
    const { replacements, beginnings } = this.#needles;
    if (!beginnings.has(text.charCodeAt(start))) return false;
    const rest = text.slice(start);
    return replacements.some(([needle]) => needle.length > rest.length && needle.startsWith(rest));
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

  /** The same list or object if it holds no secret, as nearly all hold none. */
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

/** Masks text that arrives in pieces: what may be the beginning of a secret is held back until the next piece. */
export class LiveMask {
  readonly #mask: SecretMask;
  /** Of bytes: most text comes as such. */
  #decoder: InstanceType<typeof TextDecoder> | undefined;
  #held = '';

  constructor(mask: SecretMask) {
    this.#mask = mask;
  }

  /** Returns the text that may be shown now, possibly none. A piece may end inside a UTF-8 character. */
  push(piece: string | Uint8Array): string {
    if (typeof piece !== 'string') this.#decoder ??= new TextDecoder();
    this.#held += typeof piece === 'string' ? piece : this.#decoder!.decode(piece, { stream: true });
    const end = this.#mask.settledLength(this.#held);
    const settled = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    return this.#mask.text(settled);
  }

  /** Returns the text that is still held back. */
  end(): string {
    const rest = this.#held + (this.#decoder?.decode() ?? '');
    this.#held = '';
    return this.#mask.text(rest);
  }
}

/** Of each stream of a run's log (`docs/interface/runs.md#records`). */
const MAX_LOG_BYTES = 10 * 1024;

/** Shortens a log to the kept size: its beginning and its end, where errors are. */
export const shortenLog = (text: string): string => shortenTo(MAX_LOG_BYTES, text);

/** Returns the whole text, or its beginning and end with a note about the bytes between them. */
export function shortenTo(maxBytes: number, text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= maxBytes) return text;
  const note = `\n[... ${bytes.byteLength - maxBytes} bytes left out ...]\n`;
  const head = startOf(bytes, maxBytes / 4);
  const tail = endOf(bytes, maxBytes - head.byteLength - Buffer.byteLength(note));
  return Buffer.concat([head, Buffer.from(note), tail]).toString();
}
