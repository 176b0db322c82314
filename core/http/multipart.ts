import type { Busboy } from 'busboy';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { type BodyLimit, boundedChunks } from './body.ts';
import type { HttpRequest } from './message.ts';

/** One file of a multipart body. */
export interface UploadedFile {
  /** Name of the part. */
  readonly field: string;
  /** The client's file name, without folders; may be empty. */
  readonly name: string;
  readonly contentType: string;
  readonly content: Uint8Array;
}

export interface Multipart {
  readonly files: UploadedFile[];
  /** Parts that are not files; the last one wins if a name repeats. */
  readonly fields: Record<string, string>;
}

/** Reads a complete `multipart/form-data` body. Throws INVALID_INPUT for a malformed one, and DOCUMENT_TOO_LARGE. */
export async function readMultipart(request: HttpRequest, limit: BodyLimit): Promise<Multipart> {
  const files: UploadedFile[] = [];
  const fields: Record<string, string> = Object.create(null);
  // Loaded lazily: most requests are JSON, and each library makes a cold start longer.
  const { default: busboy } = await import('busboy');
  try {
    const parser = busboy({
      headers: { 'content-type': request.headers.get('content-type') ?? '' },
      defParamCharset: 'utf8',
      limits: { files: 100, fields: 100, fieldSize: limit.bytes, fieldNameSize: 200 },
    });
    let refused: string | undefined;
    parser.on('file', (field, stream, info) => {
      const chunks: Buffer[] = [];
      // The parser reports the same error below; without a listener it would crash the process.
      stream.on('error', () => {});
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const name = info.filename ?? '';
        files.push({ field, name, contentType: info.mimeType, content: Buffer.concat(chunks) });
      });
    });
    parser.on('field', (name, value) => {
      fields[name] = value;
    });
    parser.on('filesLimit', () => {
      refused = 'more than 100 files';
    });
    parser.on('fieldsLimit', () => {
      refused = 'more than 100 fields';
    });
    await pump(boundedChunks(request, limit), parser);
    if (refused) throw new PlatformError('INVALID_INPUT', `The multipart body has ${refused}.`);
  } catch (error) {
    if (isPlatformError(error)) throw error;
    const reason = error instanceof Error ? error.message : '';
    throw new PlatformError('INVALID_INPUT', `The body is not valid multipart/form-data: ${reason}.`);
  }
  return { files, fields };
}

async function pump(chunks: AsyncIterable<Uint8Array>, parser: Busboy): Promise<void> {
  const closed = new Promise<void>((resolve, reject) => {
    parser.on('close', resolve);
    parser.on('error', reject);
  });
  closed.catch(() => {});
  try {
    for await (const chunk of chunks) {
      if (parser.destroyed) break;
      parser.write(chunk);
    }
    parser.end();
  } catch (error) {
    parser.destroy();
    throw error;
  }
  await closed;
}
