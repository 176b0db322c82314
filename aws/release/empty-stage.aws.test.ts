import { randomUUID } from 'node:crypto';
import {
  DeleteObjectCommand,
  ListObjectVersionsCommand,
  PutBucketTaggingCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { CreateSecretCommand, ListSecretsCommand } from '@aws-sdk/client-secrets-manager';
import { expect, test } from 'vitest';
import { createBucket, s3Client, secretsManagerClient } from '#test/helpers/aws.ts';
import { DISPOSABLE_TAG, emptyStage } from './empty-stage.ts';

const clients = { s3: s3Client(), secrets: secretsManagerClient() };

async function usedStage(disposable?: string) {
  const { s3, secrets } = clients;
  const Bucket = await createBucket(s3);
  await s3.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } }));
  if (disposable !== undefined) {
    const TagSet = [{ Key: DISPOSABLE_TAG, Value: disposable }];
    await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  }
  for (const Key of ['bundles/a', 'bundles/a', 'runs/b'])
    await s3.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'runs/b' }));
  const secretPrefix = `platform/${randomUUID()}`;
  for (const Name of [`${secretPrefix}/one`, `${secretPrefix}/two`, `${secretPrefix}2/other`]) {
    await secrets.send(new CreateSecretCommand({ Name, SecretString: '{}' }));
  }
  return {
    stage: { bucket: Bucket, secretPrefix },
    async left() {
      const { Versions = [], DeleteMarkers = [] } = await s3.send(new ListObjectVersionsCommand({ Bucket }));
      const { SecretList = [] } = await secrets.send(
        new ListSecretsCommand({ Filters: [{ Key: 'name', Values: [secretPrefix] }], MaxResults: 100 }),
      );
      return {
        objects: Versions.length + DeleteMarkers.length,
        secrets: SecretList.map(({ Name }) => Name!.slice(secretPrefix.length)).sort(),
      };
    },
  };
}

test('every version and every vault of the stage goes, and nothing of another', async () => {
  const { stage, left } = await usedStage('true');
  await emptyStage(clients, stage);
  expect(await left()).toEqual({ objects: 0, secrets: ['2/other'] });
  await emptyStage(clients, stage);
});

test.each(['false', undefined])('marked as disposable: %s, everything stays', async (disposable) => {
  const { stage, left } = await usedStage(disposable);
  await emptyStage(clients, stage);
  expect(await left()).toEqual({ objects: 4, secrets: ['/one', '/two', '2/other'] });
});
