import { HostBusyError } from '#core/base/errors.ts';
import type { HttpRequest, RequestHeaders } from './message.ts';

/**
 * Memory that a byte of a body may take while its request is under way: JSON of nested arrays takes the most
 * (docs/costs.md).
 */
export const MEMORY_PER_BODY_BYTE = 64;

/**
 * Bounds the memory of request bodies in a process that serves many requests at once. A body counts with its declared
 * length, times {@link MEMORY_PER_BODY_BYTE}, from its first read until its request has ended. A body without a declared
 * length counts as the largest one that is accepted.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #largest: number;
  #used = 0;

  /** Room for `memoryBytes` in total; no accepted body is larger than `largest` bytes. */
  constructor(memoryBytes: number, largest: number) {
    this.#maxBytes = Math.floor(memoryBytes / MEMORY_PER_BODY_BYTE);
    this.#largest = largest;
    if (largest > this.#maxBytes) throw new Error(`${memoryBytes} bytes of memory do not hold a body of ${largest}`);
  }

  /** Declared bytes of the bodies that are held. */
  get used(): number {
    return this.#used;
  }

  /**
   * Returns the request with its body counted as soon as it is read, and the function that ends its share. Reading the
   * body throws {@link HostBusyError} while there is no room for it.
   */
  admit(request: HttpRequest): { readonly request: HttpRequest; readonly end: () => void } {
    let share: number | undefined;
    let hasEnded = false;
    const take = (): void => {
      if (share !== undefined || hasEnded) return;
      // Larger ones are refused without being read.
      const wanted = Math.min(declaredLength(request.headers) ?? this.#largest, this.#largest);
      if (this.#used + wanted > this.#maxBytes) throw new HostBusyError(`no room for a body of ${wanted} bytes`);
      share = wanted;
      this.#used += wanted;
    };
    return {
      request: new CountedRequest(request, take),
      end: () => {
        if (!hasEnded) this.#used -= share ?? 0;
        hasEnded = true;
      },
    };
  }
}

/** Returns the length that a request declares; `undefined` for a chunked body, or if it is no length. */
function declaredLength(headers: RequestHeaders): number | undefined {
  if (headers.has('transfer-encoding')) return undefined;
  const length = Number(headers.get('content-length') ?? 0);
  return length >= 0 ? length : undefined;
}

/** Calls `take` before its body is read. */
class CountedRequest implements HttpRequest {
  readonly #request: HttpRequest;
  readonly #take: () => void;

  constructor(request: HttpRequest, take: () => void) {
    this.#request = request;
    this.#take = take;
  }

  get method(): string {
    return this.#request.method;
  }

  get url(): string {
    return this.#request.url;
  }

  get headers(): RequestHeaders {
    return this.#request.headers;
  }

  get body(): AsyncIterable<Uint8Array> | null {
    const { body } = this.#request;
    if (body !== null) this.#take();
    return body;
  }

  async bytes(): Promise<Uint8Array> {
    this.#take();
    return this.#request.bytes();
  }
}
