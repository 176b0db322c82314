import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, inject } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { uploadFormsConformance } from '#test/conformance/upload-forms.ts';
import { AWS_TEST_ACCOUNT, createBucket, s3Client } from '#test/helpers/aws.ts';
import { postForm } from '#test/helpers/uploads.ts';
import { startAwsGate } from '#test/rehearsal/aws-gate.ts';
import { NOTHING } from '#test/rehearsal/iam.ts';
import { S3Blobs } from './s3-blobs.ts';
import { S3UploadForms } from './s3-upload-forms.ts';

const bucket = await createBucket(s3Client());
const { accessKeyId } = AWS_TEST_ACCOUNT.credentials;
const mayUpload = { ...NOTHING, actions: ['s3:PutObject'], resources: [`arn:aws:s3:::${bucket}/uploads/*`] };
const gate = await startAwsGate({ s3: inject('awsEndpoints').moto }, { [accessKeyId]: [mayUpload] });
afterAll(() => gate.close());
const clock = new SystemClock();

uploadFormsConformance(() => ({
  forms: new S3UploadForms(
    new S3Client({ ...AWS_TEST_ACCOUNT, endpoint: gate.url, forcePathStyle: true }),
    bucket,
    clock,
  ),
  blobs: new S3Blobs(s3Client(), bucket),
  now: () => clock.now(),
  post: postForm,
}));
