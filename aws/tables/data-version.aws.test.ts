import { DeleteTableCommand, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { expect, test } from 'vitest';
import { DATA_VERSION, DATA_VERSIONS, type DataVersion } from '#core/base/data-versions.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';
import { checkTables, takeDataVersion } from './data-version.ts';

const client = dynamoDbClient();
/** Returns the first versions of the data, of platforms 0.1.0, 0.2.0 and so on. */
const upTo = (count: number): DataVersion[] =>
  Array.from({ length: count }, (_, index) => ({
    ...{ version: index + 1, platform: `0.${index + 1}.0`, changes: 'x', migration: 'x', shapes: 'x' },
  }));

async function stage({ holds }: { holds: 'nothing' | 'something' }) {
  const prefix = `data-version-${crypto.randomUUID()}-`;
  await createTables(client, (name) => prefix + name);
  const TableName = `${prefix}main`;
  if (holds === 'something') {
    await client.send(new PutItemCommand({ TableName, Item: { pk: { S: 'WS' }, sk: { S: 'x' } } }));
  }
  const Key = { pk: { S: 'PLATFORM' }, sk: { S: 'DATA_VERSION' } };
  return {
    prefix,
    TableName,
    take: (count: number) => takeDataVersion(client, prefix, upTo(count)),
    async stored() {
      const { Item } = await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
      return Item && { version: Number(Item.version!.N), platform: Item.platform!.S };
    },
  };
}

test('new data has the newest version, whatever that is, and it is taken again', async () => {
  const { take, stored } = await stage({ holds: 'nothing' });
  for (let i = 0; i < 2; i++) {
    await take(4);
    expect(await stored()).toEqual({ version: 4, platform: '0.4.0' });
  }
});

test('data goes on by one version, never by two', async () => {
  const { take, stored, TableName } = await stage({ holds: 'something' });
  await expect(take(3)).rejects.toThrow(
    expect.objectContaining({
      code: 'DATA_VERSION',
      message: `The data of ${TableName} has version 1 (platform 0.1.0), and this platform 0.3.0 takes version 2 (platform 0.2.0) and version 3 (platform 0.3.0): deploy platform 0.2.0 first, and each version of the data after it.`,
    }),
  );
  expect(await stored()).toBeUndefined();
  await take(2);
  expect(await stored()).toEqual({ version: 2, platform: '0.2.0' });
  await expect(take(4)).rejects.toThrow('deploy platform 0.3.0 first');
  await take(3);
  await take(4);
  expect(await stored()).toEqual({ version: 4, platform: '0.4.0' });
});

test('a deployment that is rolled back takes the data of the next version, and no later one', async () => {
  const { take, stored, TableName } = await stage({ holds: 'nothing' });
  await take(3);
  await take(2);
  expect(await stored()).toEqual({ version: 3, platform: '0.3.0' });
  await expect(take(1)).rejects.toThrow(
    `The data of ${TableName} has version 3 (platform 0.3.0), and this platform 0.1.0 takes version 1 (platform 0.1.0) and one later: deploy platform 0.3.0 or later, or restore the tables as they were before that was deployed.`,
  );
  await take(3);
});

test('two deployments at the same time agree', async () => {
  const { take, stored } = await stage({ holds: 'nothing' });
  await Promise.all([take(2), take(2), take(2)]);
  expect(await stored()).toMatchObject({ version: 2 });
});

test('this platform takes the data of stages from before versions were kept', async () => {
  const { prefix, stored } = await stage({ holds: 'something' });
  await takeDataVersion(client, prefix);
  expect(await stored()).toEqual({ version: DATA_VERSION, platform: DATA_VERSIONS.at(-1)!.platform });
});

test('a table that is not there is named', async () => {
  const { prefix, TableName } = await stage({ holds: 'nothing' });
  await checkTables(client, prefix);
  await client.send(new DeleteTableCommand({ TableName }));
  await expect(checkTables(client, prefix)).rejects.toThrow(`The table ${TableName} is missing`);
});
