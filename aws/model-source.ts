import type { S3Client } from '@aws-sdk/client-s3';
import { MAX_MODELS_BYTES, webModels } from '#core/models/model-source.ts';
import type { ModelSource } from '#core/models/model-table.ts';
import type { HttpOutbound } from '#core/outbound/http-outbound.ts';

const S3_ADDRESS = /^s3:\/\/([^/]+)\/(.+)$/;

/** `PLATFORM_MODELS`: a web address, or `s3://bucket/key`, which the function's role may read. */
export function awsModels(outbound: HttpOutbound, place: string, client?: S3Client): ModelSource {
  const [, bucket, key] = S3_ADDRESS.exec(place) ?? [];
  if (bucket === undefined || key === undefined) return webModels(outbound, place);
  return {
    name: place,
    async read() {
      // Loaded on demand: few stages have their own table.
      const { readObject } = await import('./blobs/s3-blobs.ts');
      return readObject(bucket, key, { maxBytes: MAX_MODELS_BYTES, client });
    },
  };
}
