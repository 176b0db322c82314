import type { Json } from '#core/base/json.ts';

/** Shorter values are not masked: they would blot out ordinary text, and guard nothing. */
const MIN_LENGTH = 4;
/** Lines of a longer secret (a PEM key) are masked on their own, too: programs print them line by line. */
const MIN_LINE_LENGTH = 16;

/** As Python writes it. */
const escapeNonAscii = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Replaces the values of secrets in whatever is kept or shown of a run by `[secret NAME]`. */
export class SecretMask {
  readonly #replacements: readonly (readonly [needle: string, mark: string])[];

  constructor(secrets: Readonly<Record<string, string>>) {
    const replacements = new Map<string, string>();
    for (const [name, value] of Object.entries(secrets)) {
      const lines = value.split(/\r?\n/).map((line) => line.trim());
      for (const part of [value, value.trim(), ...lines.filter((line) => line.length >= MIN_LINE_LENGTH)]) {
        if (part.length < MIN_LENGTH) continue;
        // As it stands, and as it stands inside JSON text, which Python writes in ASCII.
        const quoted = JSON.stringify(part).slice(1, -1);
        for (const needle of [part, quoted, escapeNonAscii(quoted)]) replacements.set(needle, `[secret ${name}]`);
      }
    }
    // The longest first: a secret may be a part of another.
    this.#replacements = [...replacements].sort(([a], [b]) => b.length - a.length);
  }

  text(text: string): string {
    return this.#replacements.reduce((masked, [needle, mark]) => masked.replaceAll(needle, mark), text);
  }

  /** How much of a text, more of which is to come, holds no secret that has only begun. */
  settledLength(text: string): number {
    let settled = text.length;
    for (const [needle] of this.#replacements) {
      for (let start = Math.max(0, text.length - needle.length + 1); start < settled; start++) {
        if (text[start] === needle[0] && needle.startsWith(text.slice(start))) settled = start;
      }
    }
    // Nor may the cut go through a secret that is there whole: its two parts would be known as nothing.
    for (let before = -1; before !== settled; ) {
      before = settled;
      for (const [needle] of this.#replacements) {
        const at = text.lastIndexOf(needle, settled - 1);
        if (at >= 0 && at + needle.length > settled) settled = at;
      }
    }
    return settled;
  }

  /** Masks strings and member names at any depth. */
  json(value: Json): Json {
    if (this.#replacements.length === 0) return value;
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'number' || typeof value === 'boolean') {
      const masked = this.text(String(value));
      return masked === String(value) ? value : masked;
    }
    if (value === null) return value;
    if (Array.isArray(value)) return value.map((element) => this.json(element));
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [this.text(name), this.json(member)]));
  }
}

/** Masks a text that comes in pieces: a piece that may be the beginning of a secret waits for the next one. */
export class LiveMask {
  readonly #mask: SecretMask;
  readonly #decoder = new TextDecoder();
  #held = '';

  constructor(mask: SecretMask) {
    this.#mask = mask;
  }

  /** What may be shown now; empty when all of it has to wait. Bytes may end inside a character. */
  push(piece: string | Uint8Array): string {
    this.#held += typeof piece === 'string' ? piece : this.#decoder.decode(piece, { stream: true });
    const end = this.#mask.settledLength(this.#held);
    const settled = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    return this.#mask.text(settled);
  }

  /** The rest. */
  end(): string {
    const rest = this.#held + this.#decoder.decode();
    this.#held = '';
    return this.#mask.text(rest);
  }
}

/** `contract.md` 11.2 point 8. */
const MAX_LOG_BYTES = 10 * 1024;

/** What is kept of a stream: all of it, or its beginning and end, the end being where errors stand. */
export const shortenLog = (text: string): string => shortenTo(MAX_LOG_BYTES, text);

/** All of a text, or its beginning and its end, with a note in the place of what is left out. */
export function shortenTo(maxBytes: number, text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= maxBytes) return text;
  const note = `\n[... ${bytes.byteLength - maxBytes} bytes left out ...]\n`;
  let headEnd = maxBytes / 4;
  let tailStart = bytes.byteLength - (maxBytes - headEnd - Buffer.byteLength(note));
  while (isInsideCharacter(bytes[headEnd]!)) headEnd--;
  while (isInsideCharacter(bytes[tailStart]!)) tailStart++;
  return bytes.subarray(0, headEnd).toString() + note + bytes.subarray(tailStart).toString();
}

/** Of UTF-8: any byte of a character but its first. */
const isInsideCharacter = (byte: number): boolean => (byte & 0xc0) === 0x80;
