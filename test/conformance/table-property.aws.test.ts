import { beforeAll, expect, test } from 'vitest';
import { DynamoTable } from '#aws/tables/dynamo-table.ts';
import { PROJECTIONS, type TableName } from '#core/ports/table-rules.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { compareTables, Host } from './table-property.ts';

const TIME_LIMIT_MS = 60_000;

const client = dynamoDbClient();
let tableNames: Record<TableName, string>;

beforeAll(async () => {
  tableNames = await createTables(client);
});

test('SQLite and DynamoDB give the same answers', { timeout: 10 * TIME_LIMIT_MS }, async () => {
  const sequences = await compareTables(TIME_LIMIT_MS, async (n) => {
    const clock = new ManualClock();
    const database = openDatabase(':memory:');
    // All sequences share the DynamoDB tables; each uses its own partitions.
    const hosts = [
      new SqliteTable(database, 'main', clock),
      new DynamoTable(client, tableNames.main, clock, PROJECTIONS.main),
      new DynamoTable(client, tableNames.runs, clock, PROJECTIONS.runs),
    ].map((table) => new Host(table, `${n}.`));
    return { hosts, clock, settle: () => database.settle(), close: () => database.close() };
  });
  expect(sequences).toBeGreaterThan(0);
  console.log(`${sequences} sequences compared`);
});
