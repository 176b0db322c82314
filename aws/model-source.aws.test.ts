import { PutObjectCommand } from '@aws-sdk/client-s3';
import { expect, test } from 'vitest';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { createBucket, s3Client } from '#test/helpers/aws.ts';
import { awsModels } from './model-source.ts';

const outbound = new HttpOutbound({ clock: new SystemClock(), ownHosts: [] });

test('an object of any bucket', async () => {
  const client = s3Client();
  const bucket = await createBucket(client);
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: 'of/acme/models.json', Body: '{"mine-1": {}}' }));
  const { name, read } = awsModels(outbound, `s3://${bucket}/of/acme/models.json`, client);
  expect(await read()).toBe('{"mine-1": {}}');
  expect(name).toBe(`s3://${bucket}/of/acme/models.json`);
});

test('an object that is not there', async () => {
  const client = s3Client();
  const bucket = await createBucket(client);
  await expect(awsModels(outbound, `s3://${bucket}/none.json`, client).read()).rejects.toThrow(/key does not exist/);
});

test('an object that is too large', async () => {
  const client = s3Client();
  const bucket = await createBucket(client);
  const Body = Buffer.alloc(4 * 1024 * 1024 + 1);
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: 'large.json', Body }));
  await expect(awsModels(outbound, `s3://${bucket}/large.json`, client).read()).rejects.toThrow(
    /more than 4194304 bytes/,
  );
});

test('any other place is a web address', async () => {
  await expect(awsModels(outbound, '/etc/models.json').read()).rejects.toThrow(/not a web address/);
});
