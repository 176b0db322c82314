import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { jsonProblem } from '#core/base/json.ts';
import { countText } from '#core/base/size-text.ts';
import type { HttpRequest } from './message.ts';

const MB = 1024 * 1024;

/** Maximum size of a body, and a hint for clients that exceed it. */
export interface BodyLimit {
  readonly bytes: number;
  /** @default - no hint */
  readonly hint?: string;
}

const tooLarge = ({ bytes, hint }: BodyLimit): PlatformError => {
  const size = bytes >= MB ? `${Math.floor(bytes / MB)} MB` : `${Math.floor(bytes / 1024)} KB`;
  return new PlatformError(
    'DOCUMENT_TOO_LARGE',
    `The request body is larger than ${size}, the maximum that is accepted here.`,
    { hint },
  );
};

/** Members of a request that are needed to read its body. */
type BodyOf = Pick<HttpRequest, 'headers' | 'body' | 'bytes'>;

/** Returns the media type without parameters, in lower case; empty if there is none. */
export const mediaType = (request: Pick<HttpRequest, 'headers'>): string =>
  (request.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase();

/** Throws DOCUMENT_TOO_LARGE as soon as Content-Length, or the bytes read so far, pass the limit. */
export async function* boundedChunks(request: BodyOf, limit: BodyLimit): AsyncGenerator<Uint8Array> {
  if (Number(request.headers.get('content-length') ?? 0) > limit.bytes) throw tooLarge(limit);
  if (request.body === null) return;
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.byteLength;
    if (size > limit.bytes) throw tooLarge(limit);
    yield chunk;
  }
}

/**
 * Reads a JSON body; `undefined` if the body is empty.
 *
 * Throws UNSUPPORTED_TYPE for another content type, INVALID_INPUT for invalid or too deep JSON, DOCUMENT_TOO_LARGE.
 */
export async function readJson(request: BodyOf, limit: BodyLimit): Promise<Json | undefined> {
  const bytes = await readBounded(request, limit);
  if (bytes.byteLength === 0) return undefined;
  const type = mediaType(request);
  if (type !== 'application/json' && !type.endsWith('+json')) {
    throw new PlatformError(
      'UNSUPPORTED_TYPE',
      `The body must be JSON, but its content type is "${type || 'missing'}".`,
      {
        hint: 'Send the header "Content-Type: application/json".',
      },
    );
  }
  return parseJson(bytes, 'The body');
}

/** Reads a body of known length in one piece, which costs half as much. */
export async function readBounded(request: BodyOf, limit: BodyLimit): Promise<Uint8Array> {
  const length = Number(request.headers.get('content-length') ?? Number.POSITIVE_INFINITY);
  if (!(length <= limit.bytes)) return Buffer.concat(await Array.fromAsync(boundedChunks(request, limit)));
  const bytes = await request.bytes();
  if (bytes.byteLength > limit.bytes) throw tooLarge(limit);
  return bytes;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

/**
 * An empty array takes three bytes in a body and ninety in memory. This number of values leaves memory for the rest of
 * a call in a function of 512 MB on AWS (docs/costs.md).
 */
const MAX_VALUES = 5_000_000;

/** Parses JSON. Throws INVALID_INPUT and DOCUMENT_TOO_LARGE with messages that begin with `what`. */
export function parseJson(bytes: Uint8Array, what: string): Json {
  if (hasMoreValues(bytes, MAX_VALUES)) {
    throw new PlatformError(
      'DOCUMENT_TOO_LARGE',
      `${what} has more than ${countText(MAX_VALUES)} values: members of objects, elements of arrays.`,
      { hint: 'Send this much data as a file.' },
    );
  }
  let value: Json;
  try {
    value = JSON.parse(UTF8.decode(bytes));
  } catch (error) {
    // Only the position: the parser's message quotes the body, which may hold a secret.
    const place = error instanceof SyntaxError ? /at position \d.*/.exec(error.message)?.[0] : undefined;
    throw new PlatformError('INVALID_INPUT', `${what} is not valid JSON${place ? ` (${place})` : ''}.`);
  }
  const problem = jsonProblem(value);
  if (problem !== undefined) throw new PlatformError('INVALID_INPUT', `${what} ${problem}.`);
  return value;
}

const [QUOTE, BACKSLASH, COMMA, ARRAY, OBJECT] = Buffer.from('"\\,[{');

/** Returns whether JSON has more than `max` values, without parsing it. For invalid JSON the result is arbitrary. */
function hasMoreValues(bytes: Uint8Array, max: number): boolean {
  // Each value takes at least a byte, and each byte counts at most once.
  if (bytes.length <= max) return false;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === COMMA || byte === ARRAY || byte === OBJECT) values += 1;
    else if (byte === QUOTE) {
      for (at += 1; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at += 1;
    }
  }
  return values > max;
}
