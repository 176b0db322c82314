import { describe } from 'vitest';
import { PROJECTIONS, TABLE_NAMES } from '#core/ports/table-rules.ts';
import { scanConformance } from '#test/conformance/scan.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { DynamoScan } from './dynamo-scan.ts';
import { DynamoTable } from './dynamo-table.ts';

let prefixes = 0;

describe('DynamoScan', () => {
  scanConformance(async () => {
    const clock = new ManualClock();
    const client = dynamoDbClient();
    prefixes += 1;
    const prefix = `scan-${process.pid}-${prefixes}-`;
    await createTables(client, (name) => prefix + name);
    const tables = TABLE_NAMES.map((name) => [name, new DynamoTable(client, prefix + name, clock, PROJECTIONS[name])]);
    return { clock, tables: Object.fromEntries(tables), scan: new DynamoScan(client, prefix, clock) };
  });
});
