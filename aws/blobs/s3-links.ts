import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { assertBlobKey, type BlobLinks } from '#core/ports/blobs.ts';

/** As long as it takes to open a session, an expired one of Lambda's own credentials included. */
const EXPIRES_SECONDS = 900;

/** Good for a quarter of an hour. */
export class S3Links implements BlobLinks {
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(client: S3Client, bucket: string) {
    this.#client = client;
    this.#bucket = bucket;
  }

  get(key: string): Promise<string> {
    assertBlobKey(key);
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: key });
    return getSignedUrl(this.#client, command, { expiresIn: EXPIRES_SECONDS });
  }
}

/** With a client whose Region and credentials are those of the environment. */
export const createS3Links = (bucket: string): S3Links => new S3Links(new S3Client(), bucket);
