import { DynamoTable } from '#aws/dynamo-table.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { ledgerSuite } from '#test/conformance/ledger.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';

ledgerSuite(
  async () => {
    const client = dynamoDbClient();
    const names = await createTables(client);
    const clock = new SystemClock();
    return { main: new DynamoTable(client, names.main, clock), runs: new DynamoTable(client, names.runs, clock) };
  },
  { rounds: 5 },
);
