/** A file in a request, as the server decoded it. */
export interface SeenFile {
  readonly mediaType: string;
  readonly bytes: Buffer;
  readonly size?: { readonly width: number; readonly height: number };
  /** Number of pages of a PDF. */
  readonly pages?: number;
  /** File name in the request. */
  readonly name?: string;
  /** Whether the file is in a tool result. */
  readonly isResult: boolean;
}

/** Describes a file: `image/png 812x400`, `application/pdf 3 pages`, `audio/wav 90 bytes`. */
export function lineOf({ mediaType, size, pages, bytes }: SeenFile): string {
  if (size) return `${mediaType} ${size.width}x${size.height}`;
  return `${mediaType} ${pages === undefined ? `${bytes.byteLength} bytes` : `${pages} pages`}`;
}

/**
 * Detects the real type of a file; returns `undefined` for unsupported ones. It is independent of the platform's
 * detection.
 */
export function read(base64: string): Pick<SeenFile, 'mediaType' | 'bytes' | 'size' | 'pages'> | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) return undefined;
  const head = bytes.toString('latin1', 0, 16);
  const found = READERS.find(([begin]) => begin.test(head));
  return found && { mediaType: found[1], bytes, ...found[2](bytes) };
}

type Seen = Pick<SeenFile, 'size' | 'pages'>;

const READERS: readonly (readonly [RegExp, string, (bytes: Buffer) => Seen])[] = [
  [/^\x89PNG\r\n/, 'image/png', (b) => ({ size: { width: b.readUInt32BE(16), height: b.readUInt32BE(20) } })],
  [/^GIF8[79]a/, 'image/gif', (b) => ({ size: { width: b.readUInt16LE(6), height: b.readUInt16LE(8) } })],
  [/^\xff\xd8\xff/, 'image/jpeg', jpeg],
  [
    /^RIFF....WEBPVP8X/s,
    'image/webp',
    (b) => ({ size: { width: b.readUIntLE(24, 3) + 1, height: b.readUIntLE(27, 3) + 1 } }),
  ],
  [/^RIFF....WEBP/s, 'image/webp', () => ({})],
  [/^....ftyp(heic|mif1)/s, 'image/heic', () => ({})],
  [/^%PDF-/, 'application/pdf', (b) => ({ pages: b.toString('latin1').split(/\/Type \/Page\b(?!s)/).length - 1 })],
  [/^RIFF....WAVE/s, 'audio/wav', () => ({})],
  [/^(ID3|\xff[\xfb\xf3\xf2])/, 'audio/mpeg', () => ({})],
  [/^fLaC/, 'audio/flac', () => ({})],
  [/^OggS/, 'audio/ogg', () => ({})],
];

/** The frame segment has the size; the segments before it are skipped. */
function jpeg(bytes: Buffer): Seen {
  for (let at = 2; at + 9 < bytes.byteLength; at += 2 + bytes.readUInt16BE(at + 2)) {
    if ([0xc0, 0xc1, 0xc2].includes(bytes[at + 1]!)) {
      return { size: { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) } };
    }
  }
  return {};
}

/** Collects the files of one request, and the first problem that the provider would report. */
export class FileLedger {
  readonly files: SeenFile[] = [];
  problem: string | undefined;

  /** Adds a file. `check` returns the provider's error for it; `undefined` stands for an unreadable file. */
  add(
    base64: string,
    given: { readonly name?: string; readonly isResult: boolean },
    check: (file: SeenFile | undefined) => string | undefined,
  ): void {
    const found = read(base64);
    const file = found && { ...found, ...given };
    this.problem ??= check(file);
    if (file) this.files.push(file);
  }
}
