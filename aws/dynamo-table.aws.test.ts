import { describe } from 'vitest';
import { tableConformance } from '#test/conformance/table.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { DynamoTable } from './dynamo-table.ts';

describe('DynamoTable', () => {
  tableConformance(async () => {
    const client = dynamoDbClient();
    const clock = new ManualClock();
    return { clock, table: new DynamoTable(client, (await createTables(client)).main, clock) };
  });
});
