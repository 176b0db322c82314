import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';
import type { Json } from '#core/base/json.ts';
import type { Blobs } from '#core/ports/blobs.ts';

/** What a workspace consists of on its way, without its blobs. */
export const RECORDS = 'records';
const MANIFEST = 'manifest.json';

/** An export, as it is stored in clear beside its encrypted files. */
export interface Manifest {
  readonly format: 1;
  /** Id of the move. */
  readonly id: string;
  readonly data_version: number;
  readonly from: string;
  readonly to: string;
  readonly workspace: { readonly id: string; readonly slug: string };
  readonly records: number;
  readonly blobs: number;
  readonly exported_at: string;
}

/** Steps of a move that are done, in their order. */
type Step = 'imported' | 'closed';

/** The files of a move are damaged, incomplete, or of another key. */
export class ArchiveError extends Error {
  readonly code = 'ARCHIVE';
}

const KEY = /^[\da-f]{64}\s*$/;

export const newKey = (): string => randomBytes(32).toString('hex');

/** Length of a frame, and whether it is the last one. */
const HEAD_BYTES = 5;
const MAX_FRAME_BYTES = 64 * 1024 ** 2;

/**
 * The files of one move, in a folder or a bucket. All but the manifest and receipts are encrypted with AES-256-GCM, because
 * records of runs hold inputs and secrets of runs, and the secrets of the workspace are among them. A file is a sequence of
 * frames; move, name and place of a frame are authenticated, so none can be exchanged, left out or added. The manifest and
 * the receipts are authenticated with the same key.
 */
export class Archive {
  readonly #store: Blobs;
  readonly #key: Buffer;

  /** @param key 64 hexadecimal digits, which are kept apart from the files. */
  constructor(store: Blobs, key: string) {
    if (!KEY.test(key)) throw new ArchiveError('the key of a move has 64 hexadecimal digits');
    this.#store = store;
    this.#key = Buffer.from(key.trim(), 'hex');
  }

  /** Writes a file whole, or not at all. */
  async write(id: string, name: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#store.put(name, this.#framesOf(id, name, content));
  }

  has(name: string): Promise<boolean> {
    return this.#store.size(name).then((size) => size !== undefined);
  }

  /** Yields the content of a file. Throws {@link ArchiveError}, also at its end. */
  async *read(id: string, name: string): AsyncGenerator<Buffer> {
    const stored = await this.#store.stream(name);
    if (stored === undefined) throw new ArchiveError(`${name} is missing`);
    let index = 0;
    let isEnded = false;
    for await (const { isLast, sealed } of framesIn(name, stored)) {
      if (isEnded) throw new ArchiveError(`${name} continues after its end`);
      isEnded = isLast;
      yield this.#open(placeOf(id, name, index, isLast), sealed, name);
      index += 1;
    }
    if (!isEnded) throw new ArchiveError(`${name} is incomplete`);
  }

  async *#framesOf(id: string, name: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let index = 0;
    const frame = (bytes: Uint8Array, isLast: boolean): Buffer => {
      const sealed = sealBytes(this.#key, placeOf(id, name, index, isLast), deflateRawSync(bytes, { level: 1 }));
      index += 1;
      const head = Buffer.alloc(HEAD_BYTES);
      head.writeUInt32BE(sealed.byteLength);
      head.writeUInt8(isLast ? 1 : 0, HEAD_BYTES - 1);
      return Buffer.concat([head, sealed]);
    };
    for await (const bytes of content) yield frame(bytes, false);
    yield frame(Buffer.alloc(0), true);
  }

  #open(place: string, sealed: Buffer, name: string): Buffer {
    try {
      return inflateRawSync(openBytes(this.#key, place, sealed));
    } catch (cause) {
      throw new ArchiveError(`${name} is damaged, or was encrypted with another key`, { cause });
    }
  }

  async readManifest(): Promise<Manifest | undefined> {
    return (await this.#readSigned(MANIFEST)) as unknown as Manifest | undefined;
  }

  /** Written last: without it there is no export. */
  writeManifest(manifest: Manifest): Promise<void> {
    return this.#writeSigned(MANIFEST, { ...manifest });
  }

  /** Records that a step of the move is done. */
  async note(step: Step, { id }: Pick<Manifest, 'id'>, at: string): Promise<void> {
    await this.#writeSigned(`${step}.json`, { id, step, at });
  }

  async isDone(step: Step, { id }: Pick<Manifest, 'id'>): Promise<boolean> {
    const receipt = await this.#readSigned(`${step}.json`);
    return receipt?.id === id && receipt.step === step;
  }

  async #writeSigned(name: string, content: { readonly [member: string]: Json }): Promise<void> {
    const text = JSON.stringify(content);
    await this.#store.put(name, Buffer.from(JSON.stringify({ content: text, mac: this.#macOf(name, text) })));
  }

  async #readSigned(name: string): Promise<{ readonly [member: string]: Json } | undefined> {
    const stored = await this.#store.get(name);
    if (stored === undefined) return undefined;
    try {
      const { content, mac } = JSON.parse(Buffer.from(stored).toString());
      if (timingSafeEqual(Buffer.from(this.#macOf(name, content)), Buffer.from(mac))) return JSON.parse(content);
    } catch (cause) {
      throw new ArchiveError(`${name} is damaged`, { cause });
    }
    throw new ArchiveError(`${name} was written with another key`);
  }

  #macOf(name: string, text: string): string {
    return createHmac('sha256', this.#key).update(`${name}\n${text}`).digest('hex');
  }
}

const placeOf = (id: string, name: string, index: number, isLast: boolean): string =>
  `${id}/${name}/${index}/${isLast ? 'last' : 'more'}`;

async function* framesIn(name: string, stored: AsyncIterable<Uint8Array>) {
  let left: Buffer = Buffer.alloc(0);
  for await (const chunk of stored) {
    left = left.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([left, chunk]);
    for (;;) {
      if (left.byteLength < HEAD_BYTES) break;
      const length = left.readUInt32BE(0);
      if (length > MAX_FRAME_BYTES) throw new ArchiveError(`${name} is damaged`);
      const end = HEAD_BYTES + length;
      if (left.byteLength < end) break;
      yield { isLast: left.readUInt8(HEAD_BYTES - 1) === 1, sealed: left.subarray(HEAD_BYTES, end) };
      left = left.subarray(end);
    }
  }
  if (left.byteLength > 0) throw new ArchiveError(`${name} is incomplete`);
}
