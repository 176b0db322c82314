import type { Blobs } from '#core/ports/blobs.ts';
import type { BlobLink } from './protocol.ts';

const MAX_ATTEMPTS = 3;
/** Validity of a link: even the largest layers take only a small part of it. */
const MAX_READ_MS = 900_000;

/** Blobs that the runner has no permissions for: each key is read from a link in the job. */
export class LinkedBlobs implements Pick<Blobs, 'get' | 'stream'> {
  /** Set when the job arrives. */
  links: readonly BlobLink[] = [];

  /** Throws {@link BlobUnreadableError}. */
  async get(key: string): Promise<Uint8Array | undefined> {
    const response = await this.#ask(key);
    return (
      response &&
      new Uint8Array(
        await response.arrayBuffer().catch((error) => {
          throw new BlobUnreadableError(key, error.message);
        }),
      )
    );
  }

  /** Throws {@link BlobUnreadableError}. */
  async stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return (await this.#ask(key))?.body ?? undefined;
  }

  async #ask(key: string): Promise<Response | undefined> {
    const url = this.links.find((link) => link.key === key)?.url;
    if (url === undefined) return undefined;
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(url, { signal: AbortSignal.timeout(MAX_READ_MS) }).catch(
        (error: Error) => error.cause ?? error,
      );
      if (response instanceof Response) {
        if (response.ok) return response;
        await response.body?.cancel();
        if (response.status === 404) return undefined;
      }
      if (attempt < MAX_ATTEMPTS) continue;
      const reason = response instanceof Response ? `status ${response.status}` : 'its storage does not answer';
      throw new BlobUnreadableError(key, reason);
    }
  }
}

/**
 * Thrown if the link has expired or the storage does not respond. A link is a secret while it is valid, so the message
 * omits it.
 */
class BlobUnreadableError extends Error {
  readonly code = 'BLOB_UNREADABLE';

  constructor(key: string, reason: string) {
    super(`${key} cannot be read: ${reason}`);
  }
}
