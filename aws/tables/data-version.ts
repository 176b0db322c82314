import {
  ConditionalCheckFailedException,
  DescribeTableCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import { DATA_VERSIONS, type DataVersion, DataVersionError } from '#core/base/data-versions.ts';
import { TABLE_NAMES } from '#core/ports/table-rules.ts';

/** Item of the main table with the version of the data, and of the platform that wrote it. */
const KEY = { pk: { S: 'PLATFORM' }, sk: { S: 'DATA_VERSION' } };

interface Stored {
  readonly version: number;
  readonly platform: string;
}

/**
 * Upgrades the recorded version of a stage's data to the newest of the list. Data without a version counts as the
 * first, an empty table as the newest. Idempotent, also if called concurrently.
 *
 * Throws {@link DataVersionError}, and changes nothing, if the data is more than one version away.
 */
export async function takeDataVersion(
  client: DynamoDBClient,
  tablePrefix: string,
  versions: readonly DataVersion[] = DATA_VERSIONS,
): Promise<void> {
  const TableName = `${tablePrefix}main`;
  const { version, platform } = versions.at(-1)!;
  const stored = await read(client, TableName);
  if (stored === undefined && (await isEmpty(client, TableName))) {
    await write(client, TableName, { version, platform }, undefined);
    return;
  }
  const from = stored ?? versions[0]!;
  const named = ({ version: number, platform: by }: Stored) => `version ${number} (platform ${by})`;
  if (from.version > version + 1) {
    throw new DataVersionError(
      `The data of ${TableName} has ${named(from)}, and this platform ${platform} takes ${named(versions.at(-1)!)} and one later: deploy platform ${from.platform} or later, or restore the tables as they were before that was deployed.`,
    );
  }
  if (from.version < version - 1) {
    const next = versions[from.version]!;
    throw new DataVersionError(
      `The data of ${TableName} has ${named(from)}, and this platform ${platform} takes ${named(versions.at(-2)!)} and ${named(versions.at(-1)!)}: deploy platform ${next.platform} first, and each version of the data after it.`,
    );
  }
  if (stored === undefined || from.version < version) await write(client, TableName, { version, platform }, stored);
}

async function read(client: DynamoDBClient, TableName: string): Promise<Stored | undefined> {
  const { Item } = await client.send(new GetItemCommand({ TableName, Key: KEY, ConsistentRead: true }));
  return Item && { version: Number(Item.version!.N), platform: Item.platform!.S! };
}

export async function isEmpty(client: DynamoDBClient, TableName: string): Promise<boolean> {
  const { Count } = await client.send(new ScanCommand({ TableName, Limit: 1, ConsistentRead: true }));
  return Count === 0;
}

async function write(
  client: DynamoDBClient,
  TableName: string,
  { version, platform }: Stored,
  before: Stored | undefined,
): Promise<void> {
  const condition = before
    ? {
        ConditionExpression: 'version = :before',
        ExpressionAttributeValues: { ':before': { N: String(before.version) } },
      }
    : { ConditionExpression: 'attribute_not_exists(pk)' };
  const Item = { ...KEY, version: { N: String(version) }, platform: { S: platform } };
  try {
    await client.send(new PutItemCommand({ TableName, Item, ...condition }));
  } catch (error) {
    // A concurrent deployment has written a version, which stays.
    if (!(error instanceof ConditionalCheckFailedException)) throw error;
  }
}

/** Throws with the name of the table unless all tables of a stage exist and are usable, for example after a restore. */
export async function checkTables(client: DynamoDBClient, tablePrefix: string): Promise<void> {
  for (const name of TABLE_NAMES) {
    const TableName = tablePrefix + name;
    const status = await client.send(new DescribeTableCommand({ TableName })).then(
      ({ Table }) => Table!.TableStatus!,
      (error) => {
        if (error.name === 'ResourceNotFoundException') return 'missing';
        throw error;
      },
    );
    if (status !== 'ACTIVE')
      throw new Error(`The table ${TableName} is ${status}: wait until it is ACTIVE, or restore it.`);
  }
}
