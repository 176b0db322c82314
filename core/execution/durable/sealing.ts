import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PIECE_BYTES = 4 * 1024 * 1024;

/** Stored data of a run that is damaged, or that was written with another key. */
export class DamagedError extends Error {
  readonly code = 'DAMAGED';
}

/**
 * Compresses and encrypts the stored data of one run with AES-256-GCM: nonce, tag, then the data. The run and the name of
 * each part are authenticated, so no part can stand in for another.
 */
export class RunSeal {
  readonly #key: Uint8Array;
  readonly #runId: string;

  /** @param key Data key of the run, 32 bytes. */
  constructor(key: Uint8Array, runId: string) {
    this.#key = key;
    this.#runId = runId;
  }

  seal(name: string, content: Uint8Array): Buffer {
    return sealBytes(this.#key, this.#authenticated(name), deflateRawSync(content, { level: 1 }));
  }

  /** Throws {@link DamagedError}. */
  open(name: string, sealed: Uint8Array): Buffer {
    try {
      return inflateRawSync(openBytes(this.#key, this.#authenticated(name), sealed));
    } catch (cause) {
      throw new DamagedError(`${name} of the run ${this.#runId} is damaged.`, { cause });
    }
  }

  /**
   * Encrypts content of any size that is compressed already, in pieces, so that nothing else has to wait: nonce, data, tag.
   */
  async *sealPieces(name: string, content: Uint8Array | AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(this.#authenticated(name)));
    yield nonce;
    for await (const piece of content instanceof Uint8Array ? piecesOf(content) : content) {
      await setImmediate();
      yield cipher.update(piece);
    }
    yield Buffer.concat([cipher.final(), cipher.getAuthTag()]);
  }

  /**
   * Yields what {@link sealPieces} encrypted. Only its end tells whether the pieces before are sound. Throws
   * {@link DamagedError}.
   */
  async *openPieces(name: string, sealed: Uint8Array): AsyncGenerator<Buffer> {
    const end = sealed.byteLength - TAG_BYTES;
    try {
      const nonce = sealed.subarray(0, NONCE_BYTES);
      const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(this.#authenticated(name)))
        .setAuthTag(sealed.subarray(end));
      for (const piece of piecesOf(sealed.subarray(NONCE_BYTES, end))) {
        await setImmediate();
        yield decipher.update(piece);
      }
      yield decipher.final();
    } catch (cause) {
      throw new DamagedError(`${name} of the run ${this.#runId} is damaged.`, { cause });
    }
  }

  #authenticated(name: string): string {
    return `${this.#runId}/${name}`;
  }
}

function* piecesOf(content: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < content.byteLength; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}
