import { randomUUID } from 'node:crypto';
import { CloudWatchLogsClient, CreateLogStreamCommand, PutLogEventsCommand } from '@aws-sdk/client-cloudwatch-logs';
import { afterAll, expect, inject, test } from 'vitest';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws.ts';
import { startAwsFront } from '#test/helpers/aws-front.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { CloudWatchLogs } from './logs.ts';

const front = await startAwsFront(inject('awsEndpoints').moto);
afterAll(() => front.close());
const client = new CloudWatchLogsClient({ ...AWS_TEST_ACCOUNT, endpoint: front.url, maxAttempts: 1 });
const clock = new ManualClock(Date.now());
const logs = new CloudWatchLogs(client, { place: { log_group_prefix: '/platform/dev/services/' }, clock });
const newService = () => ({ id: randomUUID(), workspaceId: 'w', label: 'bot-123456' });
const now = Date.now();
const json = (line: object) => JSON.stringify({ at: now, severity: 'INFO', message: 'a', ...line });

test('lines of all instances, oldest first, by time and severity', async () => {
  const service = newService();
  expect(await logs.logs(service, { limit: 10 })).toEqual([]);
  const made = { retentionDays: 30, tags: { 'platform:service': service.id } };
  await logs.create(service.id, made);
  await logs.create(service.id, made);
  const streams: Record<string, string[]> = {
    one: [
      json({ at: now - 3000, message: 'first', source: 'app' }),
      json({ at: now - 1000, severity: 'ERROR', message: 'third' }),
    ],
    two: [
      json({ at: now - 2000, severity: 'WARNING', message: 'second', source: 'platform' }),
      'FATAL ERROR: heap',
      json({ severity: 7 }),
    ],
  };
  for (const [logStreamName, lines] of Object.entries(streams)) {
    const logGroupName = `/platform/dev/services/${service.id}`;
    await client.send(new CreateLogStreamCommand({ logGroupName, logStreamName }));
    const logEvents = lines.map((message) => ({ timestamp: now, message }));
    await client.send(new PutLogEventsCommand({ logGroupName, logStreamName, logEvents }));
  }
  expect(await logs.logs(service, { limit: 3 })).toHaveLength(3);
  const all = await logs.logs(service, { limit: 10 });
  expect(all.slice(0, 3)).toEqual([
    { at: now - 3000, severity: 'INFO', message: 'first', source: 'app' },
    { at: now - 2000, severity: 'WARNING', message: 'second', source: 'platform' },
    { at: now - 1000, severity: 'ERROR', message: 'third' },
  ]);
  expect(all[3]).toEqual({ at: now, severity: 'DEBUG', message: 'FATAL ERROR: heap' });
  expect(all).toHaveLength(5);
  const messages = async (query: object) =>
    (await logs.logs(service, { limit: 10, ...query })).map(({ message }) => message);
  expect(await messages({ severity: 'WARNING' })).toEqual(['second', 'third']);
  expect(await messages({ severity: 'WARNING', since: now - 1500 })).toEqual(['third']);
  await logs.remove(service.id);
  await logs.remove(service.id);
  expect(await messages({})).toEqual([]);
});

test('CloudWatch reads the newest lines first, in pages of which some are empty', async () => {
  const asked: { [name: string]: unknown }[] = [];
  const pages = [
    { events: [{ timestamp: 9000, message: json({ at: 9000, severity: 'ERROR', message: 'c' }) }], nextToken: '1' },
    { events: [], nextToken: '2' },
    { events: [{ timestamp: 8000, message: json({ at: 8000, severity: 'ERROR', message: 'b' }) }], nextToken: '3' },
    { events: [{ timestamp: 7000, message: json({ at: 7000, severity: 'ERROR', message: 'a' }) }], nextToken: '4' },
  ];
  front.actions.FilterLogEvents = (input) => {
    asked.push(input);
    return { body: pages[asked.length - 1]! };
  };
  const service = newService();
  const query = { limit: 2, severity: 'ERROR', since: 0 } as const;
  expect((await logs.logs(service, query)).map(({ message }) => message)).toEqual(['b', 'c']);
  expect(asked).toHaveLength(3);
  expect(asked[0]).toEqual({
    logGroupName: `/platform/dev/services/${service.id}`,
    // CloudWatch rejects earlier times for reads from the end.
    startTime: Date.parse('2024-01-01T00:00:00Z'),
    startFromHead: false,
    limit: 2,
    filterPattern: '{ $.severity = "ERROR" || $.severity = "CRITICAL" }',
  });
  expect(asked[2]).toMatchObject({ nextToken: '2' });

  // A search without results ends in time.
  let searches = 0;
  front.actions.FilterLogEvents = () => {
    searches += 1;
    clock.advance(5000);
    return { body: { events: [], nextToken: 'more' } };
  };
  expect(await logs.logs(service, { limit: 2 })).toEqual([]);
  expect(searches).toBe(3);
  delete front.actions.FilterLogEvents;
});
