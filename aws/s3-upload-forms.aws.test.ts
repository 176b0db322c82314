import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, inject } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { uploadFormsConformance } from '#test/conformance/upload-forms.ts';
import { AWS_TEST_ACCOUNT, createBucket, s3Client } from '#test/helpers/aws.ts';
import { startPolicyGate } from '#test/helpers/policy-gate.ts';
import { postForm } from '#test/helpers/uploads.ts';
import { S3Blobs } from './s3-blobs.ts';
import { S3UploadForms } from './s3-upload-forms.ts';

const { dynamoDb, moto } = inject('awsEndpoints');
const bucket = await createBucket(s3Client());
const gate = await startPolicyGate(
  { dynamodb: dynamoDb, s3: moto, secretsmanager: moto, lambda: moto, scheduler: moto },
  () => ({
    [`arn:aws:s3:::${bucket}/uploads/*`]: ['s3:PutObject'],
  }),
);
afterAll(() => gate.close());
const clock = new SystemClock();

uploadFormsConformance(() => ({
  forms: new S3UploadForms(
    new S3Client({
      ...AWS_TEST_ACCOUNT,
      endpoint: gate.environmentOf('fn').AWS_ENDPOINT_URL_S3!,
      forcePathStyle: true,
    }),
    bucket,
    clock,
  ),
  blobs: new S3Blobs(s3Client(), bucket),
  now: () => clock.now(),
  post: postForm,
}));
