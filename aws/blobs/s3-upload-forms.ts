import { S3Client } from '@aws-sdk/client-s3';
import { createPresignedPost } from '@aws-sdk/s3-presigned-post';
import { assertBlobKey } from '#core/ports/blobs.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { UploadForm, UploadForms } from '#core/ports/upload-forms.ts';

/**
 * {@link UploadForms} for the bucket of `S3Blobs`. S3 checks each request against the signed policy: the key, the size
 * and the time (docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html). A form has the permissions
 * of the role that signed it, and expires with that role's session.
 */
export class S3UploadForms implements UploadForms {
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #clock: Clock;

  constructor(client: S3Client, bucket: string, clock: Clock) {
    this.#client = client;
    this.#bucket = bucket;
    this.#clock = clock;
  }

  async create({ key, maxBytes, expiresAt }: Parameters<UploadForms['create']>[0]): Promise<UploadForm> {
    assertBlobKey(key);
    return createPresignedPost(this.#client, {
      Bucket: this.#bucket,
      Key: key,
      Conditions: [['content-length-range', 0, maxBytes]],
      Expires: Math.floor((expiresAt - this.#clock.now()) / 1000),
    });
  }
}

/** Uses the environment's Region and credentials. */
export const createS3UploadForms = (bucket: string, clock: Clock): S3UploadForms =>
  new S3UploadForms(new S3Client(), bucket, clock);
