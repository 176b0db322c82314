import { TransactionCanceledException, TransactionConflictException } from '@aws-sdk/client-dynamodb';
import { describe, expect, test } from 'vitest';
import { absent, exists } from '#core/ports/table.ts';
import { tableConformance } from '#test/conformance/table.ts';
import { dynamoDbClient, newTables } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';

describe('DynamoTable', () => {
  describe.each(['main', 'runs'] as const)('%s', (name) => {
    tableConformance(async () => {
      const clock = new ManualClock();
      return { clock, table: (await newTables(clock))[name] };
    });
  });

  // DynamoDB Local never throws these errors, so they are injected between the client and it.
  describe('when DynamoDB is busy', () => {
    const key = { pk: 'p', sk: 's' };

    /** Returns a table whose first requests fail with these errors before they are sent. */
    async function failing(errors: Error[]) {
      const client = dynamoDbClient();
      const { main } = await newTables(new ManualClock(), client);
      client.middlewareStack.add((next) => (args) => {
        const error = errors.shift();
        return error ? Promise.reject(error) : next(args);
      });
      return main;
    }
    const metadata = { $metadata: {}, message: 'busy' };
    const conflict = () => new TransactionConflictException(metadata);
    const canceled = (...codes: string[]) =>
      new TransactionCanceledException({ ...metadata, CancellationReasons: codes.map((Code) => ({ Code })) });

    test('tries again', async () => {
      const table = await failing([conflict(), conflict()]);
      expect(await table.put({ ...key, n: 1 }, absent())).toEqual({ ok: true });
      const throttled = await failing([canceled('TransactionConflict'), canceled('ThrottlingError')]);
      expect(await throttled.transact([{ op: 'put', item: key }])).toEqual({ ok: true });
    });

    test('answers without positions when a transaction never gets through', async () => {
      const table = await failing(Array.from({ length: 6 }, () => canceled('None', 'TransactionConflict')));
      const check = { op: 'check', key: { pk: 'p', sk: 't' }, condition: exists() } as const;
      expect(await table.transact([{ op: 'put', item: key }, check])).toEqual({ ok: false, failed: [] });
      expect(await table.transact([{ op: 'put', item: key }, check])).toEqual({ ok: false, failed: [1] });
    });

    test('knows its own conditional put whose answer was lost', async () => {
      const client = dynamoDbClient();
      const { main: table } = await newTables(new ManualClock(), client);
      let lost = 0;
      client.middlewareStack.add(
        (next) => async (args) => {
          const answer = await next(args);
          if (lost > 0) return answer;
          lost += 1;
          throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
        },
        { step: 'deserialize' },
      );
      expect(await table.put({ ...key, owner: 'me', n: 1e21, list: [1] }, absent())).toEqual({ ok: true });
      lost = 0;
      expect(await table.put({ ...key, owner: 'another' }, absent())).toEqual({ ok: false });
    });
  });
});
