import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { LayerError, LayerReader, type LayerSize } from './layer-reader.ts';

/**
 * Reads the archive of a layer (tar.gz) and passes its content on as a normalized tar ({@link LayerReader}).
 *
 * Throws {@link LayerError} with the first problem; then all content passed on so far must be discarded. Errors of
 * `archive` and `pass` are thrown unchanged. Memory: the paths of the layer.
 */
export async function readLayer(
  archive: AsyncIterable<Uint8Array>,
  pass: (piece: Uint8Array) => Promise<void> | void,
  maxBytes?: number,
): Promise<LayerSize> {
  const reader = new LayerReader(maxBytes);
  const gunzip = createGunzip();
  const feeding = feed(archive, gunzip);
  feeding.catch(() => {});
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      for (const piece of reader.take(chunk, gunzip.bytesWritten)) await pass(piece);
    }
    await feeding;
    for (const piece of reader.end()) await pass(piece);
    return reader.size;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith('Z_')) throw new LayerError(`its archive is damaged or truncated (${message})`);
    throw error;
  } finally {
    gunzip.destroy();
  }
}

/** Feeds the stream. An error of the source destroys the stream, and a destroyed stream ends the source. */
async function feed(archive: AsyncIterable<Uint8Array>, gunzip: ReturnType<typeof createGunzip>): Promise<void> {
  try {
    for await (const chunk of archive) {
      if (gunzip.destroyed) return;
      if (!gunzip.write(chunk)) await drained(gunzip);
    }
    gunzip.end();
  } catch (error) {
    gunzip.destroy(error as Error);
    throw error;
  }
}

/**
 * Yields the same chunks and checks them like {@link readLayer}. It throws {@link LayerError} before the last chunk, so
 * a reader that waits for the end never accepts a bad layer. `onChecked` gets the result, with its SHA-256 in hex.
 */
export async function* checkedLayer(
  archive: AsyncIterable<Uint8Array>,
  onChecked: (layer: LayerSize & { readonly sha256: string; readonly archiveBytes: number }) => void,
  maxBytes?: number,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  const copy = new PassThrough();
  const checking = readLayer(copy, () => {}, maxBytes);
  checking.catch(() => copy.destroy());
  let archiveBytes = 0;
  try {
    for await (const chunk of archive) {
      hash.update(chunk);
      archiveBytes += chunk.byteLength;
      if (!copy.destroyed && !copy.write(chunk)) await drained(copy);
      if (copy.destroyed) break;
      yield chunk;
    }
    copy.end();
    onChecked({ ...(await checking), archiveBytes, sha256: hash.digest('hex') });
  } finally {
    copy.destroy();
  }
}

/** Waits until the stream accepts more data or is closed. */
async function drained(stream: PassThrough | ReturnType<typeof createGunzip>): Promise<void> {
  const waiting = new AbortController();
  const { signal } = waiting;
  try {
    await Promise.race([once(stream, 'drain', { signal }), once(stream, 'close', { signal })]);
  } catch {
    // The reader of the stream gets its error.
  } finally {
    waiting.abort();
  }
}
