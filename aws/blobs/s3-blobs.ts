import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { assertBlobKey, assertBlobPrefix, type Blobs } from '#core/ports/blobs.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';

// Loaded with this file, because each file that is loaded apart has its own copy of S3's client.
export { createS3UploadForms } from './s3-upload-forms.ts';

/**
 * {@link Blobs} in one S3 bucket, under their own keys. Its role needs `s3:ListBucket`, because S3 otherwise responds
 * "forbidden" for missing objects. The bucket needs a lifecycle rule that aborts the unfinished multipart uploads of
 * crashed processes.
 */
export class S3Blobs implements Blobs {
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(client: S3Client, bucket: string) {
    this.#client = client;
    this.#bucket = bucket;
  }

  async put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    const params = { ...this.#object(key), Body: body };
    if (body instanceof Uint8Array) {
      await this.#client.send(new PutObjectCommand({ ...params, Body: body }));
    } else {
      await new Upload({ client: this.#client, params: { ...params, Body: Readable.from(body) } }).done();
    }
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const object = await undefinedIfMissing(this.#client.send(new GetObjectCommand(this.#object(key))));
    return object?.Body?.transformToByteArray();
  }

  async stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const object = await undefinedIfMissing(this.#client.send(new GetObjectCommand(this.#object(key))));
    return object?.Body as Readable | undefined;
  }

  async size(key: string): Promise<number | undefined> {
    return (await undefinedIfMissing(this.#client.send(new HeadObjectCommand(this.#object(key)))))?.ContentLength;
  }

  async delete(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand(this.#object(key)));
  }

  async *list(prefix: string): AsyncGenerator<string> {
    assertBlobPrefix(prefix);
    for await (const page of paginateListObjectsV2(
      { client: this.#client },
      { Bucket: this.#bucket, Prefix: prefix },
    )) {
      for (const { Key } of page.Contents ?? []) yield Key!;
    }
  }

  #object(key: string): { Bucket: string; Key: string } {
    assertBlobKey(key);
    return { Bucket: this.#bucket, Key: key };
  }
}

/** Uses the environment's Region and credentials. */
export const createS3Blobs = (bucket: string): S3Blobs => new S3Blobs(mapThrottlingErrors(new S3Client()), bucket);

/** Returns the text of an object in any bucket. Throws an Error whose message explains why it cannot be read. */
export async function readObject(
  bucket: string,
  key: string,
  { maxBytes, client = mapThrottlingErrors(new S3Client()) }: { readonly maxBytes: number; readonly client?: S3Client },
): Promise<string> {
  const { Body, ContentLength = 0 } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  if (ContentLength > maxBytes) throw new Error(`the object has more than ${maxBytes} bytes`);
  return Body!.transformToString();
}

/** Resolves to `undefined` if the object does not exist. HEAD has no body that names the error. */
async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Error && (error.name === 'NoSuchKey' || error.name === 'NotFound')) return undefined;
    throw error;
  }
}
