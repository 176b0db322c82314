import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { type Release, tryRelease } from './release.ts';

/** Scripted responses of API Gateway and CloudWatch, and the requests they received. */
let stage: object | undefined;
let ringing: () => string[];
let onPoll: () => void;
let refusals: number;
const asked: string[] = [];

const server = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray()).toString();
  const answer = (status: number, value: object) => response.writeHead(status).end(JSON.stringify(value));
  expect(request.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=\w+\/\d+\/eu-west-1\//);
  if (refusals > 0) {
    refusals -= 1;
    return answer(429, { message: 'TooManyRequestsException' });
  }
  const target = String(request.headers['x-amz-target'] ?? '').split('.')[1];
  if (target === 'DescribeAlarms') {
    onPoll();
    return answer(200, { MetricAlarms: ringing().map((AlarmName) => ({ AlarmName })) });
  }
  if (target === 'SetAlarmState') {
    const { AlarmName, StateValue } = JSON.parse(body);
    asked.push(`${AlarmName} ${StateValue}`);
    return answer(200, {});
  }
  expect(request.url).toBe('/restapis/api1/stages/prod');
  if (request.method === 'GET') return stage ? answer(200, stage) : answer(404, { message: 'Invalid stage' });
  for (const { op, path, value } of JSON.parse(body).patchOperations)
    asked.push([op, path, value].filter(Boolean).join(' '));
  const isOn = asked.at(-1) !== 'remove /canarySettings';
  stage = { ...stage, canarySettings: isOn ? { percentTraffic: 10 } : undefined };
  return answer(200, stage);
});
let url: string;
beforeAll(async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  vi.unstubAllEnvs();
});
beforeEach(() => {
  stage = { deploymentId: 'd1', variables: { agents: '4', calls: '7' } };
  ringing = () => [];
  onPoll = () => {};
  refusals = 0;
  asked.length = 0;
});

const tried = (changed: Partial<Release> = {}) =>
  tryRelease(
    {
      ...{ ApiGatewayUrl: url, CloudWatchUrl: url, Region: 'eu-west-1', RestApiId: 'api1', StageName: 'prod' },
      ...{ DeploymentId: 'd1', Variables: { agents: '5', calls: '7' }, Percent: 10, Seconds: 300, Alarms: ['faults'] },
      ...changed,
    },
    new HastyClock(),
  );
const BEGIN = [
  'faults OK',
  'replace /canarySettings/deploymentId d1',
  'replace /canarySettings/stageVariableOverrides/agents 5',
  'replace /canarySettings/useStageCache false',
  'replace /canarySettings/percentTraffic 10',
];
const END = 'remove /canarySettings';

test('a part of the requests goes to the versions that have changed, until the time is over', async () => {
  let polls = 0;
  onPoll = () => {
    polls += 1;
  };
  await tried();
  expect(asked).toEqual([...BEGIN, END]);
  expect(polls).toBe(60);
});

test('an alarm ends it with an error that names it', async () => {
  let polls = 0;
  ringing = () => (++polls === 3 ? ['prod-release-faults'] : []);
  await expect(tried()).rejects.toThrow('rolled back by prod-release-faults');
  expect([asked, polls]).toEqual([[...BEGIN, END], 3]);
});

test('somebody who removes the canary takes the release back', async () => {
  onPoll = () => {
    stage = { ...stage, canarySettings: undefined };
  };
  await expect(tried()).rejects.toThrow('the canary was ended by another process');
  expect(asked).toEqual(BEGIN);
});

test.each<[string, () => void, Partial<Release>]>([
  ['there is no stage yet', () => (stage = undefined), {}],
  ['the stage serves it', () => {}, { Variables: { agents: '4' } }],
  ['it is older, as on the way back', () => {}, { Variables: { agents: '3', calls: '8' }, DeploymentId: 'd0' }],
  [
    'an alias of it is older',
    () => (stage = { deploymentId: 'd1', variables: { calls: 'v10' } }),
    { Variables: { calls: 'v9' } },
  ],
])('nothing is tried when %s', async (_, arrange, release) => {
  arrange();
  await tried(release);
  expect(asked).toEqual([]);
});

test('what a cancelled deployment left is removed first, also on the way back', async () => {
  stage = { ...stage, canarySettings: { percentTraffic: 10 } };
  await tried({ Variables: { agents: '4', calls: '7' } });
  expect(asked).toEqual([END]);
});

test('throttled requests are sent again, but not without end', async () => {
  refusals = 3;
  await tried();
  expect(asked.at(-1)).toBe(END);
  refusals = 100;
  await expect(tried()).rejects.toThrow('apigateway answered 429');
});
