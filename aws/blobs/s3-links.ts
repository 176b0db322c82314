import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { assertBlobKey, type BlobLinks } from '#core/ports/blobs.ts';

/** Long enough to open a session, including a renewal of Lambda's own credentials. */
const EXPIRES_SECONDS = 900;

/** Presigned links that are valid for a quarter of an hour. */
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

/** Uses the environment's Region and credentials. */
export const createS3Links = (bucket: string): S3Links => new S3Links(new S3Client(), bucket);
