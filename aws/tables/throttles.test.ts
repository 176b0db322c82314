import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { KMSClient } from '@aws-sdk/client-kms';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SESv2Client } from '@aws-sdk/client-sesv2';
import { describe, expect, onTestFinished, test } from 'vitest';
import { shownError } from '#core/base/errors.ts';
import { errorResponse } from '#core/http/envelope.ts';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws-account.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { S3Blobs } from '../blobs/s3-blobs.ts';
import { invokeStreaming } from '../fargate/invoke.ts';
import { keptSecret } from '../secrets/kept-secret.ts';
import { KmsDataKeys, sealedOf } from '../secrets/kms-data-keys.ts';
import { SecretsManagerVault } from '../secrets/secrets-manager-vault.ts';
import { CloudWatchLogs } from '../services/logs.ts';
import { SesMail } from '../ses-mail.ts';
import { EventBridgeTimers } from '../timers/eventbridge-timers.ts';
import { DynamoTable } from './dynamo-table.ts';
import { mapThrottlingErrors } from './throttles.ts';

const RUN_ID = '11111111-2222-4333-8444-555555555555';
const WORKSPACE = '11111111-2222-4333-8444-666666666666';

/** Starts a fake AWS that answers every request with this error in the service's protocol; `asked` counts them. */
async function refusingAws(name: string) {
  const state = { asked: 0 };
  const server = createServer((request, response) => {
    state.asked += 1;
    request.resume();
    request.on('end', () => {
      if (name === 'SlowDown') {
        response.writeHead(503, { 'content-type': 'application/xml' });
        response.end(`<Error><Code>${name}</Code><Message>Reduce your request rate.</Message></Error>`);
        return;
      }
      response.writeHead(name === 'TooManyRequestsException' ? 429 : 400, {
        'content-type': 'application/x-amz-json-1.0',
        'x-amzn-errortype': name,
      });
      // DynamoDB gives the reason for cancelling a transaction in the body.
      const CancellationReasons = [{ Code: 'ThrottlingError' }];
      response.end(JSON.stringify({ __type: name, message: 'Rate exceeded', CancellationReasons }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { state, account: { ...AWS_TEST_ACCOUNT, endpoint, maxAttempts: 1 } };
}

type Account = Awaited<ReturnType<typeof refusingAws>>['account'];
const clock = () => new HastyClock();

/** One request of each adapter, and the name of AWS's throttling error for it. */
const ADAPTERS: readonly (readonly [adapter: string, name: string, ask: (account: Account) => Promise<unknown>])[] = [
  ['a read of a table', 'ProvisionedThroughputExceededException', (account) => tableOf(account).get(KEY)],
  ['a read of many items', 'ThrottlingException', (account) => tableOf(account).batchGet([KEY])],
  ['a query', 'RequestLimitExceeded', (account) => tableOf(account).query({ pk: 'p' })],
  ['a put', 'ProvisionedThroughputExceededException', (account) => tableOf(account).put(KEY)],
  ['an update', 'ThrottlingException', (account) => tableOf(account).update(KEY, { set: { a: 1 } })],
  ['a deletion', 'ThrottlingException', (account) => tableOf(account).delete(KEY)],
  ['a transaction', 'TransactionCanceledException', (account) => tableOf(account).transact([{ op: 'put', item: KEY }])],
  ['a blob', 'SlowDown', (account) => new S3Blobs(mapThrottlingErrors(s3Of(account)), 'bucket').get('runs/a')],
  ['a secret of a workspace', 'ThrottlingException', (account) => vaultOf(account).read(WORKSPACE, ['NAME'])],
  ['a new data key', 'ThrottlingException', (account) => dataKeysOf(account).newDataKey(WORKSPACE)],
  [
    'a sealed data key',
    'ThrottlingException',
    (account) => dataKeysOf(account).openDataKey(WORKSPACE, sealedOf(Buffer.alloc(8))),
  ],
  [
    'a secret of the operator',
    'ThrottlingException',
    (account) => keptSecret({ secretName: 'key', clock: clock(), client: secretsOf(account) }, (text) => text)(),
  ],
  ['a timer', 'ThrottlingException', (account) => timersOf(account).set(TIMER)],
  ['a timer, by the quota of schedules', 'ServiceQuotaExceededException', (account) => timersOf(account).set(TIMER)],
  [
    'mail',
    'TooManyRequestsException',
    (account) => new SesMail(mapThrottlingErrors(new SESv2Client(account)), 'a@example.com').send(MESSAGE),
  ],
  [
    'logs of services',
    'ThrottlingException',
    (account) =>
      new CloudWatchLogs(mapThrottlingErrors(new CloudWatchLogsClient(account)), {
        place: { log_group_prefix: '/logs/' },
        clock: clock(),
      }).logs({ id: RUN_ID, workspaceId: WORKSPACE, label: 'a' }, { limit: 1 }),
  ],
  [
    'a call of a function',
    'TooManyRequestsException',
    (account) => invokeStreaming({ client: new LambdaClient(account), clock: clock() }, 'sandbox-dispatch', {}),
  ],
];

const KEY = { pk: 'p', sk: 's' };
const TIMER = { workspaceId: WORKSPACE, scheduleId: RUN_ID, cronExpression: '* * * * *', timezone: 'UTC' };
const MESSAGE = { to: 'b@example.com', subject: 'Hello', text: 'Hello.' };
const tableOf = (account: Account) =>
  new DynamoTable(mapThrottlingErrors(new DynamoDBClient(account)), 'main', clock(), 'ALL');
const s3Of = (account: Account) => new S3Client({ ...account, forcePathStyle: true });
const secretsOf = (account: Account) => mapThrottlingErrors(new SecretsManagerClient(account));
const vaultOf = (account: Account) => {
  const { counters, ids, vault } = memoryDeps();
  return new SecretsManagerVault({
    client: secretsOf(account),
    prefix: 'secrets',
    locks: counters,
    dataKeys: async () => vault,
    clock: clock(),
    ids,
  });
};
const dataKeysOf = (account: Account) =>
  new KmsDataKeys({ client: mapThrottlingErrors(new KMSClient(account)), key: 'alias/keys', prefix: 'secrets' });
const timersOf = (account: Account) =>
  new EventBridgeTimers({
    client: mapThrottlingErrors(new SchedulerClient(account)),
    group: 'timers',
    queueArn: 'arn:aws:sqs:eu-west-1:111122223333:fires',
    deadQueueArn: 'arn:aws:sqs:eu-west-1:111122223333:dead',
    roleArn: 'arn:aws:iam::111122223333:role/timers',
  });

describe('a throttle of AWS ends as a retryable error with a wait', () => {
  test.each(ADAPTERS)('%s: %s', async (_, name, ask) => {
    const { account, state } = await refusingAws(name);
    const error = await ask(account).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'HOST_BUSY' });
    expect(state.asked).toBeGreaterThan(0);
    const { status, headers, body } = errorResponse(error, RUN_ID, {});
    expect({ status, wait: headers['retry-after'] }).toEqual({ status: 429, wait: '2' });
    expect(JSON.parse(body as string).error).toMatchObject({
      code: 'RATE_LIMITED',
      is_retryable: true,
      suggested_wait_time: 2,
    });
    // AWS's message names parts of the account.
    expect(body).not.toContain('Rate exceeded');
  });

  test("after the SDK's own retries", async () => {
    const { account, state } = await refusingAws('ThrottlingException');
    const client = mapThrottlingErrors(new DynamoDBClient({ ...account, maxAttempts: 2 }));
    await expect(new DynamoTable(client, 'main', clock(), 'ALL').get(KEY)).rejects.toMatchObject({ code: 'HOST_BUSY' });
    expect(state.asked).toBe(2);
  });
});

/** Clients whose throttling errors are not mapped, with the reason. */
const OTHER_CLIENTS: Readonly<Record<string, string>> = {
  'aws/fargate/sandbox.ts LambdaClient': 'invokeStreaming tells',
  'aws/lambda-sandbox/sandbox.ts LambdaClient': 'invokeStreaming tells',
  'aws/pass-call.ts LambdaClient': 'invokeOnce tells',
  'aws/usage/sum-from-stream.ts SQSClient': 'the same batch comes again',
  'aws/microvm/sandbox.ts LambdaMicrovmsClient': 'asks again until half of the time is over, and tells itself',
  'aws/blobs/s3-links.ts S3Client': 'only signs',
  'aws/blobs/s3-upload-forms.ts S3Client': 'only signs',
  'aws/timers/timer-queue.ts SQSClient': 'what is not asked comes again late',
  'aws/services/alb.ts ElasticLoadBalancingV2Client': 'the next minute gives the order again',
  'aws/services/create-ecs-service-host.ts ECSClient': 'the next minute gives the order again',
  'aws/services/create-ecs-service-host.ts ApplicationAutoScalingClient': 'the next minute gives the order again',
  'aws/services/create-ecs-service-host.ts CloudWatchLogsClient': 'the next minute gives the order again',
};

test('every client of an adapter tells, or is known not to need it', () => {
  const root = join(import.meta.dirname, '../..');
  const files = globSync('aws/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('.test.ts'));
  const silent = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/(mapThrottlingErrors\()?new (\w+Client)\(/g)].flatMap(
      ([, tells, client]) => (tells ? [] : [`${file} ${client}`]),
    ),
  );
  expect(silent.sort()).toEqual(Object.keys(OTHER_CLIENTS).sort());
});

test.each([
  ['DynamoDB', new DynamoDBClient(AWS_TEST_ACCOUNT)],
  ['S3', new S3Client(AWS_TEST_ACCOUNT)],
])('a client of %s copies no request for a log', async (_, client) => {
  const named = () => client.middlewareStack.identify().filter((each) => each.startsWith('loggerMiddleware'));
  expect(named()).toHaveLength(1);
  mapThrottlingErrors(client);
  expect(named()).toEqual([]);
});

test('any other error of AWS stays what it is', async () => {
  const { account } = await refusingAws('AccessDeniedException');
  const error = await tableOf(account)
    .get(KEY)
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ name: 'AccessDeniedException' });
  expect(shownError(error, 'Broken.')).toMatchObject({ code: 'INTERNAL_ERROR', message: 'Broken.' });
});
