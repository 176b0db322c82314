import { isUtf8 } from 'node:buffer';

/**
 * Type of a file by its first bytes. The file name and the declared type are ignored (`docs/interface/files.md#types`).
 */
export interface FileType {
  readonly mediaType: string;
  readonly kind: 'image' | 'pdf' | 'audio' | 'text' | 'other';
  /** Encoding of a text. */
  readonly encoding?: 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';
}

type Signature = readonly [mediaType: string, kind: FileType['kind'], matches: (bytes: Uint8Array) => boolean];

/** Matches bytes that contain `text` (one byte a character) at offset `at`. */
const has =
  (text: string, at = 0) =>
  (bytes: Uint8Array): boolean =>
    bytes.byteLength >= at + text.length &&
    Array.from(text, (c, i) => bytes[at + i] === c.charCodeAt(0)).every(Boolean);

const both =
  (...parts: ((bytes: Uint8Array) => boolean)[]) =>
  (bytes: Uint8Array): boolean =>
    parts.every((matches) => matches(bytes));

/** Matches an ISO base media file (ISO 14496-12), which lists its brands at the beginning. */
const brand =
  (brands: RegExp) =>
  (bytes: Uint8Array): boolean =>
    has('ftyp', 4)(bytes) && brands.test(Buffer.from(bytes.subarray(8, 12)).toString('latin1'));

/** Matches a frame of MPEG audio or AAC: it begins with 11 or 12 set bits, and the layer bits distinguish the two. */
const frame =
  (mask: number, value: number) =>
  (bytes: Uint8Array): boolean =>
    bytes[0] === 0xff && bytes.byteLength > 1 && (bytes[1]! & mask) === value;

/**
 * Types that models accept, and types often sent under the same names. Libraries for this know hundreds of types that
 * no model accepts, read asynchronously, and do not detect text.
 */
const SIGNATURES: readonly Signature[] = [
  ['image/png', 'image', has('\x89PNG\r\n\x1a\n')],
  ['image/jpeg', 'image', has('\xff\xd8\xff')],
  ['image/gif', 'image', (bytes) => has('GIF87a')(bytes) || has('GIF89a')(bytes)],
  ['image/webp', 'image', both(has('RIFF'), has('WEBP', 8))],
  ['image/heic', 'image', brand(/^(hei[cxms]|hev[cx]|mif1|msf1)$/)],
  ['application/pdf', 'pdf', has('%PDF-')],
  ['audio/wav', 'audio', both(has('RIFF'), has('WAVE', 8))],
  ['audio/mpeg', 'audio', (bytes) => has('ID3')(bytes) || frame(0xe6, 0xe2)(bytes)],
  ['audio/flac', 'audio', has('fLaC')],
  ['audio/ogg', 'audio', has('OggS')],
  ['audio/aiff', 'audio', both(has('FORM'), has('AIF', 8))],
  ['audio/aac', 'audio', frame(0xf6, 0xf0)],
  ['audio/mp4', 'audio', brand(/^M4[AB] $/)],
  ['application/zip', 'other', (bytes) => has('PK\x03\x04')(bytes) || has('PK\x05\x06')(bytes)],
  ['application/gzip', 'other', has('\x1f\x8b\x08')],
  ['application/x-elf', 'other', has('\x7fELF')],
];

const UNKNOWN: FileType = { mediaType: 'application/octet-stream', kind: 'other' };
const SCANNED_BYTES = 65_536;

/** Detects the type of a complete file. A file that contains only characters is `text/plain`. */
export function fileTypeOf(bytes: Uint8Array): FileType {
  const signed = signedTypeOf(bytes);
  if (signed !== undefined) return signed;
  const encoding = encodingOf(bytes);
  if (encoding !== undefined) return { mediaType: 'text/plain', kind: 'text', encoding };
  // Two letters do not prove a binary: a text may begin with them.
  return has('MZ')(bytes) ? { mediaType: 'application/x-msdownload', kind: 'other' } : UNKNOWN;
}

/** Length of the longest signature, including its offset. */
export const SIGNATURE_BYTES = 12;

/**
 * Detects a type by its signature; `undefined` for text and unknown types. Pass at least the first {@link
 * SIGNATURE_BYTES} of the file.
 */
export function signedTypeOf(bytes: Uint8Array): FileType | undefined {
  const found = SIGNATURES.find(([, , matches]) => matches(bytes));
  return found && { mediaType: found[0], kind: found[1] };
}

function encodingOf(bytes: Uint8Array): FileType['encoding'] {
  if (has('\xff\xfe')(bytes)) return 'utf-16le';
  if (has('\xfe\xff')(bytes)) return 'utf-16be';
  // A binary file has control characters near its beginning.
  if (bytes.subarray(0, SCANNED_BYTES).some(isControl)) return undefined;
  return isUtf8(bytes) ? 'utf-8' : 'windows-1252';
}

/** Excludes tab, line ends, form feed and escape. */
const isControl = (byte: number): boolean => byte < 0x20 && ![0x09, 0x0a, 0x0c, 0x0d, 0x1b].includes(byte);

/** Decodes a text without its byte order mark and without NUL, which providers refuse. */
export const decodeText = (bytes: Uint8Array, { encoding = 'utf-8' }: Pick<FileType, 'encoding'>): string =>
  new TextDecoder(encoding).decode(bytes).replaceAll('\0', '\uFFFD');

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Reads the dimensions of a PNG, JPEG, GIF or WebP; `undefined` for other types and damaged files. */
export function imageSizeOf(bytes: Uint8Array, mediaType: string): ImageSize | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    switch (mediaType) {
      case 'image/png':
        return has('IHDR', 12)(bytes) ? { width: view.getUint32(16), height: view.getUint32(20) } : undefined;
      case 'image/gif':
        return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
      case 'image/jpeg':
        return jpegSize(view);
      case 'image/webp':
        return webpSize(bytes, view);
      default:
        return undefined;
    }
  } catch {
    // The file ends before its dimensions.
    return undefined;
  }
}

/** A usual JPEG has some dozens. */
const MAX_MARKERS = 10_000;

/** Walks the markers up to the frame header, which has the dimensions. */
function jpegSize(view: DataView): ImageSize | undefined {
  for (let at = 2, markers = 0; view.getUint8(at) === 0xff && markers < MAX_MARKERS; markers++) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    // Fill bytes may precede a marker.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return undefined;
}

/** RFC 9649: three formats, each with the dimensions at a different offset. */
function webpSize(bytes: Uint8Array, view: DataView): ImageSize | undefined {
  if (has('VP8X', 12)(bytes)) {
    const uint24 = (at: number): number => view.getUint16(at, true) + (view.getUint8(at + 2) << 16);
    return { width: uint24(24) + 1, height: uint24(27) + 1 };
  }
  if (has('VP8L', 12)(bytes)) {
    const bits = view.getUint32(21, true);
    return { width: (bits & 0x3fff) + 1, height: ((bits >> 14) & 0x3fff) + 1 };
  }
  if (!has('VP8 ', 12)(bytes)) return undefined;
  return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
}

/** Counting stops here: no model accepts a PDF with more pages. */
const MAX_PAGES = 10_000;

/** Counts the pages of a PDF, except those in compressed objects. Returns 0 if it finds none. */
export function pdfPagesOf(bytes: Uint8Array): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  let pages = 0;
  for (const _ of text.matchAll(/\/Type\s{0,9}\/Page(?![A-Za-z])/g)) {
    pages++;
    if (pages === MAX_PAGES) break;
  }
  return pages;
}
