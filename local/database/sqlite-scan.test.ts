import { describe, onTestFinished } from 'vitest';
import { scanConformance } from '#test/conformance/scan.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';
import { openDatabase } from './database.ts';
import { SqliteScan } from './sqlite-scan.ts';

describe('SqliteScan', () => {
  scanConformance(async () => {
    const clock = new ManualClock();
    const database = openDatabase(':memory:');
    onTestFinished(() => database.close());
    return { clock, tables: memoryTables(clock, { database }), scan: new SqliteScan(database, clock) };
  });
});
