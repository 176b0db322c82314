import type { Blobs } from '#core/ports/blobs.ts';
import type { BlobLink } from './protocol.ts';

const TRIES = 3;

/** Blobs that somebody else may read for us: each key is asked for at its own address. */
export class LinkedBlobs implements Pick<Blobs, 'get' | 'stream'> {
  /** Set once the job is known. */
  links: readonly BlobLink[] = [];

  async get(key: string): Promise<Uint8Array | undefined> {
    const response = await this.#ask(key);
    return response && new Uint8Array(await response.arrayBuffer());
  }

  async stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return (await this.#ask(key))?.body ?? undefined;
  }

  /** The address is a secret while it holds: no error names it. */
  async #ask(key: string): Promise<Response | undefined> {
    const url = this.links.find((link) => link.key === key)?.url;
    if (url === undefined) return undefined;
    for (let trial = 1; ; trial++) {
      const response = await fetch(url).catch((error: Error) => error.cause ?? error);
      if (response instanceof Response) {
        if (response.ok) return response;
        await response.body?.cancel();
        if (response.status === 404) return undefined;
      }
      if (trial < TRIES) continue;
      const reason = response instanceof Response ? `status ${response.status}` : 'its storage does not answer';
      throw new Error(`${key} cannot be read: ${reason}`);
    }
  }
}
