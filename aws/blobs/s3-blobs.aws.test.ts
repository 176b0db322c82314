import { describe } from 'vitest';
import { blobsConformance } from '#test/conformance/blobs.ts';
import { createBucket, s3Client } from '#test/helpers/aws.ts';
import { S3Blobs } from './s3-blobs.ts';

describe('S3Blobs', () => {
  blobsConformance(async () => {
    const client = s3Client();
    return new S3Blobs(client, await createBucket(client));
  });
});
