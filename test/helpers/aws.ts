import { randomUUID } from 'node:crypto';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateAliasCommand, CreateKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { inject } from 'vitest';
import { DynamoTable } from '#aws/tables/dynamo-table.ts';
import { sumFromStream } from '#aws/usage/sum-from-stream.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { OwnFeed } from '#core/ports/feed.ts';
import { PROJECTIONS, TABLE_NAMES, TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { AWS_TEST_ACCOUNT } from './aws-account.ts';
import { StreamReader } from './stream-reader.ts';

export { AWS_TEST_ACCOUNT };

export const dynamoDbClient = (): DynamoDBClient =>
  new DynamoDBClient({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').dynamoDb });

export const s3Client = (): S3Client =>
  new S3Client({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto, forcePathStyle: true });

export const secretsManagerClient = (): SecretsManagerClient =>
  new SecretsManagerClient({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto });

export const kmsClient = (): KMSClient => new KMSClient({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto });

/** Creates a key, as the stack `data` does, and returns its alias. */
export async function createKmsKey(client: KMSClient, AliasName = `alias/key-${randomUUID()}`): Promise<string> {
  const { KeyMetadata } = await client.send(new CreateKeyCommand({}));
  await client.send(new CreateAliasCommand({ AliasName, TargetKeyId: KeyMetadata!.KeyId! }));
  return AliasName;
}

/**
 * Creates the three tables, under new names where `nameOf` gives none, and returns the names. TTL is off because
 * DynamoDB Local expires items by real time, not by the clock of the test.
 */
export async function createTables(
  client: DynamoDBClient,
  nameOf: (name: TableName) => string = newNames(),
): Promise<Record<TableName, string>> {
  const names = TABLE_NAMES.map((name) => [name, nameOf(name)] as const);
  await Promise.all(
    names.map(([name, tableName]) => client.send(new CreateTableCommand(tableDefinition(name, tableName)))),
  );
  return Object.fromEntries(names) as Record<TableName, string>;
}

/** Creates three tables for this test alone. */
export async function newTables(clock: Clock, client = dynamoDbClient()): Promise<Record<TableName, DynamoTable>> {
  const tables = Object.entries(await createTables(client)) as [TableName, string][];
  return Object.fromEntries(
    tables.map(([name, tableName]) => [name, new DynamoTable(client, tableName, clock, PROJECTIONS[name])]),
  ) as Record<TableName, DynamoTable>;
}

/** Creates three tables for this test alone, and sums ended runs from the stream of one when somebody reads usage. */
export async function newFedTables(
  clock: Clock,
): Promise<Record<TableName, DynamoTable> & { readonly endedRuns: OwnFeed; readonly stream: StreamReader }> {
  const client = dynamoDbClient();
  const names = await createTables(client);
  const table = (name: TableName) => new DynamoTable(client, names[name], clock, PROJECTIONS[name]);
  const tables = { main: table('main'), runs: table('runs'), counters: table('counters') };
  const { credentials } = AWS_TEST_ACCOUNT;
  const stream = new StreamReader(inject('awsEndpoints').dynamoDb, names.runs, credentials.accessKeyId);
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  let last = Promise.resolve();
  const sumAll = async (): Promise<void> => {
    for (const { shardId, records } of await stream.read()) {
      await sumFromStream({ ...tables, clock, log, config: { sumsDeadQueue: 'none' } }, { Records: records, shardId });
    }
  };
  return { ...tables, stream, endedRuns: { settle: () => (last = last.then(sumAll)) } };
}

export async function createBucket(client: S3Client): Promise<string> {
  const Bucket = `blobs-${randomUUID()}`;
  await client.send(new CreateBucketCommand({ Bucket }));
  return Bucket;
}

function tableDefinition(name: TableName, TableName: string) {
  const { indexes, partitionKey, sortKey } = TABLE_SCHEMA;
  const keySchema = (keys: { partitionKey: string; sortKey: string }) => [
    { AttributeName: keys.partitionKey, KeyType: 'HASH' as const },
    { AttributeName: keys.sortKey, KeyType: 'RANGE' as const },
  ];
  const keyAttributes = [TABLE_SCHEMA, ...Object.values(indexes)].flatMap((keys) => [keys.partitionKey, keys.sortKey]);
  return {
    TableName,
    BillingMode: 'PAY_PER_REQUEST' as const,
    ...(name === 'runs' && {
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' as const },
    }),
    AttributeDefinitions: keyAttributes.map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
    KeySchema: keySchema({ partitionKey, sortKey }),
    GlobalSecondaryIndexes: Object.entries(indexes).map(([IndexName, keys]) => ({
      IndexName,
      KeySchema: keySchema(keys),
      Projection: { ProjectionType: PROJECTIONS[name] },
    })),
  };
}

function newNames(): (name: TableName) => string {
  const suffix = randomUUID();
  return (name) => `${name}-${suffix}`;
}
