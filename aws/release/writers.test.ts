import { LambdaClient } from '@aws-sdk/client-lambda';
import { expect, onTestFinished, test } from 'vitest';
import { AWS_TEST_ACCOUNT, TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { startFakeLambdaAdmin } from '#test/helpers/fake-lambda-admin.ts';
import { startWriters, stopWriters, writersOf } from './writers.ts';

const arnOf = (name: string) => `arn:aws:lambda:${TEST_REGION}:${TEST_ACCOUNT}:function:${name}`;
const NOW = Date.UTC(2026, 10, 23, 12);

async function platform() {
  const of = (name: string, timeoutSeconds: number, environment: Record<string, string>) => ({
    name,
    arn: arnOf(name),
    timeoutSeconds,
    environment,
  });
  const own = { PLATFORM_TABLE_PREFIX: 'acme-prod-' };
  const state = {
    functions: [
      of('acme-prod-calls', 300, own),
      of('acme-prod-fired', 660, own),
      of('acme-prod-sweeper', 60, own),
      // This function uses no table; the others belong to another stage, or to none.
      of('acme-prod-meta', 29, {}),
      of('acme-dev-calls', 300, { PLATFORM_TABLE_PREFIX: 'acme-dev-' }),
    ],
    reserved: new Map([
      ['acme-prod-sweeper', 2],
      ['acme-prod-calls', 50],
    ]),
    provisioned: new Map([
      ['acme-prod-calls:live', 5],
      ['acme-prod-fired:live', 1],
      ['acme-prod-fired:7', 2],
    ]),
    readers: [
      { id: 'q', functionArn: arnOf('acme-prod-fired:live'), isEnabled: true },
      { id: 'other', functionArn: arnOf('acme-dev-calls'), isEnabled: true },
    ],
  };
  const before = structuredClone(state);
  const admin = await startFakeLambdaAdmin(state);
  onTestFinished(() => admin.close());
  const { credentials } = AWS_TEST_ACCOUNT;
  const lambda = new LambdaClient({ region: TEST_REGION, credentials, endpoint: admin.url, maxAttempts: 1 });
  onTestFinished(() => lambda.destroy());
  const changes = () => admin.requests.filter((each) => !each.startsWith('GET'));
  return { state, before, admin, lambda, changes };
}

test('all functions that know the tables are stopped, and run as before afterwards', async () => {
  const { state, before, admin, lambda, changes } = await platform();
  expect(await writersOf(lambda, 'acme-prod')).toMatchObject([
    { name: 'acme-prod-calls', idleFrom: undefined },
    { name: 'acme-prod-fired', idleFrom: undefined },
    { name: 'acme-prod-sweeper', idleFrom: undefined },
  ]);
  expect(changes()).toEqual([]);

  // A minute after its time limit at the latest, no invocation of a function is running.
  const stopped = [
    { name: 'acme-prod-calls', idleFrom: NOW + 360_000 },
    { name: 'acme-prod-fired', idleFrom: NOW + 720_000 },
    { name: 'acme-prod-sweeper', idleFrom: NOW + 120_000 },
  ];
  expect(await stopWriters(lambda, 'acme-prod', () => NOW)).toMatchObject(stopped);
  expect([...state.reserved.values()]).toEqual([0, 0, 0]);
  expect([...state.provisioned]).toEqual([]);
  expect(state.readers.map(({ isEnabled }) => isEnabled)).toEqual([false, true]);
  expect(await writersOf(lambda, 'acme-prod')).toMatchObject(stopped);

  const stopping = changes().length;
  expect(await stopWriters(lambda, 'acme-prod', () => NOW + 60_000)).toMatchObject(stopped);
  expect(changes()).toHaveLength(stopping);

  const names = stopped.map(({ name }) => name);
  expect(await startWriters(lambda, 'acme-prod')).toEqual(names);
  expect(state).toEqual(before);
  expect([...admin.tags.values()]).toEqual([{}, {}, {}, {}, {}]);
  expect(await startWriters(lambda, 'acme-prod')).toEqual([]);
});

test('a stop or a start that breaks off is completed by the next', async () => {
  const { state, before, admin, lambda } = await platform();
  const breakingOff = async (act: () => Promise<unknown>): Promise<number> => {
    for (let count = 0; ; count++) {
      admin.failAfter(count);
      const isDone = await act().then(
        () => true,
        () => false,
      );
      admin.failAfter(Number.POSITIVE_INFINITY);
      if (isDone) return count;
    }
  };
  let now = NOW;
  expect(await breakingOff(() => stopWriters(lambda, 'acme-prod', () => (now += 1000)))).toBeGreaterThan(10);
  const idle = (await writersOf(lambda, 'acme-prod')).map(({ idleFrom }) => idleFrom!);
  expect([...state.reserved.values()]).toEqual([0, 0, 0]);
  // Counted from the time when each was actually stopped, not from the first attempt.
  expect(Math.min(...idle)).toBeGreaterThan(NOW + 120_000);
  expect(await breakingOff(() => startWriters(lambda, 'acme-prod'))).toBeGreaterThan(10);
  expect(state).toEqual(before);
});

test('a platform that is not there is refused, with where it was looked for', async () => {
  const { lambda } = await platform();
  const missing = `No function of acme-test is in ${TEST_REGION}`;
  await expect(stopWriters(lambda, 'acme-test', () => NOW)).rejects.toThrow(missing);
  await expect(startWriters(lambda, 'acme-test')).rejects.toThrow(missing);
});
