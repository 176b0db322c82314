import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { boundedChunks } from '#core/http/body.ts';
import { errorResponse } from '#core/http/envelope.ts';
import { type HttpRequest, type HttpResponse, targetOf } from '#core/http/message.ts';
import { assertBlobKey, type Blobs } from '#core/ports/blobs.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Ids } from '#core/ports/ids.ts';
import { checkSpace, type Space } from '#core/ports/space.ts';
import type { UploadForm, UploadForms } from '#core/ports/upload-forms.ts';

/** Not a route of the API: on AWS, clients send these forms to S3. */
const PATH = '/uploads/form';
/** Allowance for names and boundaries of the parts. */
const OVERHEAD_BYTES = 64 * 1024;

/** Constraints of a form, signed in its field `policy`. */
interface Policy {
  readonly key: string;
  readonly maxBytes: number;
  readonly expiresAt: number;
}

/** {@link UploadForms} that this process receives itself. Forms become invalid when the process ends. */
export class LocalUploadForms implements UploadForms {
  readonly #blobs: Blobs;
  readonly #space: Space;
  readonly #clock: Clock;
  readonly #ids: Ids;
  readonly #url: string;
  readonly #maxBytes: number;
  readonly #secret = randomBytes(32);
  /**
   * Keys of uploads in progress. Concurrent uploads of one form would take more disk space than the workspace's limit
   * counts.
   */
  readonly #storing = new Set<string>();

  /**
   * @param baseUrl Address where clients reach this host.
   * @param maxBytes Largest size that any form allows.
   */
  constructor(
    {
      blobs,
      space,
      clock,
      ids,
    }: { readonly blobs: Blobs; readonly space: Space; readonly clock: Clock; readonly ids: Ids },
    { baseUrl, maxBytes }: { readonly baseUrl: string; readonly maxBytes: number },
  ) {
    this.#blobs = blobs;
    this.#space = space;
    this.#clock = clock;
    this.#ids = ids;
    this.#url = baseUrl + PATH;
    this.#maxBytes = maxBytes;
  }

  async create(allowed: Policy): Promise<UploadForm> {
    assertBlobKey(allowed.key);
    const policy = Buffer.from(JSON.stringify(allowed)).toString('base64url');
    return { url: this.#url, fields: { policy, signature: this.#sign(policy).toString('hex') } };
  }

  /** Whether a request is for {@link LocalUploadForms.accept}. */
  takes({ method, url }: Pick<HttpRequest, 'method' | 'url'>): boolean {
    return method === 'POST' && url.endsWith(PATH) && targetOf(url)?.path === PATH;
  }

  /**
   * Responds 204 if the file was stored, otherwise with the error envelope: FORBIDDEN, DOCUMENT_TOO_LARGE,
   * INVALID_INPUT, RATE_LIMITED.
   */
  async accept(request: HttpRequest): Promise<HttpResponse> {
    const requestUuid = this.#ids.uuid();
    try {
      await this.#accept(request);
      return { status: 204, headers: {}, body: null };
    } catch (error) {
      return errorResponse(error, requestUuid, {});
    }
  }

  async #accept(request: HttpRequest): Promise<void> {
    const fields: Record<string, string> = Object.create(null);
    let stored: Promise<void> | undefined;
    try {
      const parser = busboy({
        headers: { 'content-type': request.headers.get('content-type') ?? '' },
        limits: { files: 1, fields: 10, fieldSize: 4096, fieldNameSize: 100 },
      });
      parser.on('field', (name, value) => {
        fields[name] = value;
      });
      parser.on('file', (_, file) => {
        // The parser emits it on failure even if nothing reads the file. Without a listener it would end the process.
        file.on('error', ignore);
        stored = this.#store(fields, file);
        stored.catch((error) => parser.destroy(error));
      });
      await pipeline(boundedChunks(request, { bytes: this.#maxBytes + OVERHEAD_BYTES }), parser);
      if (stored === undefined) throw new Error('it has no part "file" with a file name');
      await stored;
    } catch (error) {
      const cause = await Promise.resolve(stored).then(() => error, asIs);
      // Disk errors are not the client's fault.
      if (isPlatformError(cause) || !(cause instanceof Error) || 'errno' in cause) throw cause;
      throw new PlatformError('INVALID_INPUT', `The body is not complete multipart/form-data: ${cause.message}.`);
    }
  }

  async #store(
    { policy = '', signature = '' }: Record<string, string>,
    file: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const expected = this.#sign(policy);
    const given = Buffer.from(signature, 'hex');
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new PlatformError(
        'FORBIDDEN',
        'The fields do not match a form of POST /uploads, or come after the file. Forms become invalid when the platform restarts.',
      );
    }
    const { key, maxBytes, expiresAt } = JSON.parse(Buffer.from(policy, 'base64url').toString()) as Policy;
    if (expiresAt <= this.#clock.now()) throw new PlatformError('FORBIDDEN', 'The form has expired.');
    if (this.#storing.has(key)) {
      throw new PlatformError('RATE_LIMITED', 'Another upload with this form is in progress.', {
        suggested_wait_time: 1,
      });
    }
    this.#storing.add(key);
    try {
      await this.#blobs.put(key, this.#whileThereIsSpace(atMost(maxBytes, file)));
    } finally {
      this.#storing.delete(key);
    }
  }

  async *#whileThereIsSpace(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      await checkSpace({ space: this.#space });
      yield chunk;
    }
  }

  #sign(policy: string): Buffer {
    return createHmac('sha256', this.#secret).update(policy).digest();
  }
}

const ignore = (): void => {};
const asIs = (error: unknown): unknown => error;

async function* atMost(limit: number, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > limit) {
      const max = `${Math.floor(limit / 1024 ** 2)} MB`;
      throw new PlatformError('DOCUMENT_TOO_LARGE', `The file is larger than ${max}, the maximum of this form.`);
    }
    yield chunk;
  }
}
