import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { defineStage, type StageFile } from '#lib/config.ts';
import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import {
  type AccountState,
  EMPTY_ACCOUNT,
  type Faults,
  OLD_ACCOUNT,
  startScriptedAws,
} from '#test/helpers/scripted-aws.ts';
import { DOCTOR, linkPackages } from '../install-packages.ts';
import policy from './policy.json' with { type: 'json' };

linkPackages(DOCTOR);
const { diagnose } = await import('./diagnose.ts');

const common = {
  keepsData: false,
  logLevel: 'info',
  logRetentionDays: 7,
  runRetentionDays: 7,
  throttle: { requestsPerSecond: 50, burst: 100 },
} as const;
/** The first step of docs/first-account.md. */
const bare = defineStage({
  ...common,
  name: 'first',
  sandbox: { kind: 'none' },
  services: { kind: 'off' },
  web: { kind: 'off' },
});
const usual = defineStage({ ...common, name: 'dev', sandbox: { kind: 'fargate' } });

const arnOf = (service: string, rest: string, region = TEST_REGION) =>
  `arn:aws:${service}:${region}:${TEST_ACCOUNT}:${rest}`;
const CERTIFICATE = arnOf('acm', 'certificate/0a1b');
const WEB_CERTIFICATE = arnOf('acm', 'certificate/0a1b', 'us-east-1');
const SERVICES_CERTIFICATE = arnOf('acm', 'certificate/0c2d');
const KEY = arnOf('kms', 'key/0a1b2c3d-0000-0000-0000-000000000000');
const TOPIC = arnOf('sns', 'operators');

/** A stage that uses all that a stage file can name, in a network of the stacks. */
const full = defineStage({
  ...common,
  name: 'full',
  bootstrapQualifier: 'agents',
  permissionsBoundary: 'Boundary',
  keyArn: KEY,
  sandbox: { kind: 'fargate', egress: 'nat', zones: ['eu-west-1a', 'eu-west-1b'] },
  services: {
    egress: 'nat',
    domain: { name: 'services.example.com', certificateArn: SERVICES_CERTIFICATE, hostedZoneId: 'Z1' },
  },
  web: { domain: { name: 'agents.example.com', certificateArn: WEB_CERTIFICATE } },
  domain: { name: 'api.example.com', certificateArn: CERTIFICATE },
  alarms: { topicArn: TOPIC, dailyUsd: 50 },
  mailFrom: 'agents@mail.example.com',
  stripe: { secretName: 'full/stripe' },
  operator: { secretName: 'full/operator' },
  a2a: { secretName: 'full/a2a' },
  oidc: { secretName: 'full/oidc', issuer: 'https://id.example.com', clientId: 'x' },
  telemetry: { secretName: 'full/telemetry', endpoint: 'https://otel.example.com' },
  setsLoggingRole: false,
  concurrency: { reserved: { calls: 500 } },
});
const vms = defineStage({ ...common, name: 'vms', sandbox: { kind: 'microvm' } });
const own = defineStage({
  ...common,
  name: 'own',
  sandbox: {
    kind: 'fargate',
    vpc: {
      id: 'vpc-0123456789abcdef0',
      taskSubnetIds: ['subnet-0123456789abcdef0'],
      functionSubnetIds: ['subnet-0123456789abcdef1'],
    },
  },
});

const publishers = (...services: string[]) => ({
  Statement: services.map((Service) => ({
    Effect: 'Allow',
    Principal: { Service: `${Service}.amazonaws.com` },
    Action: 'sns:Publish',
    Resource: TOPIC,
  })),
});

/** Has everything that `full`, `vms` and `own` name. */
const prepared: AccountState = {
  ...OLD_ACCOUNT,
  quotas: { ...OLD_ACCOUNT.quotas, 'L-0263D0A3': 20 },
  bootstraps: { agents: 21, hnb659fds: 30 },
  policies: ['Boundary'],
  subnets: { 'subnet-0123456789abcdef0': 'vpc-0123456789abcdef0', 'subnet-0123456789abcdef1': 'vpc-0123456789abcdef0' },
  natGateways: { 'subnet-1': 'eu-west-1a', 'subnet-2': 'eu-west-1a' },
  certificates: {
    [CERTIFICATE]: { status: 'ISSUED', names: ['api.example.com'] },
    [WEB_CERTIFICATE]: { status: 'ISSUED', names: ['example.com', '*.example.com'] },
    [SERVICES_CERTIFICATE]: { status: 'ISSUED', names: ['*.services.example.com'] },
  },
  hostedZones: { Z1: { name: 'example.com' } },
  keys: { [KEY]: { state: 'Enabled', spec: 'SYMMETRIC_DEFAULT' } },
  identities: { 'example.com': true },
  sendsToAll: true,
  topics: { [TOPIC]: publishers('cloudwatch', 'events', 'budgets') },
  secrets: {
    'full/stripe': false,
    'full/operator': false,
    'full/a2a': false,
    'full/oidc': false,
    'full/telemetry': false,
  },
  logRole: `arn:aws:iam::${TEST_ACCOUNT}:role/logs`,
};

beforeEach(() => {
  for (const [name, value] of Object.entries({
    AWS_ACCESS_KEY_ID: 'AKIATEST',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_MAX_ATTEMPTS: '1',
    AWS_EC2_METADATA_DISABLED: 'true',
  })) {
    vi.stubEnv(name, value);
  }
});
afterEach(() => vi.unstubAllEnvs());

async function examine(stage: StageFile, state: AccountState, faults: Faults = {}) {
  const aws = await startScriptedAws(state, faults);
  onTestFinished(() => aws.close());
  vi.stubEnv('AWS_ENDPOINT_URL', aws.url);
  const { findings, account } = await diagnose(stage, TEST_REGION);
  const found = (check: string) => {
    const finding = findings.find((each) => each.check === check);
    if (finding === undefined) throw new Error(`there is no check ${check}: ${findings.map((each) => each.check)}`);
    return finding;
  };
  const inState = (state: string) => findings.filter((each) => each.state === state).map(({ check }) => check);
  return { findings, account, found, inState, calls: aws.calls };
}

describe('states of an account', () => {
  test('an empty account lacks the bootstrap, executions and roles', async () => {
    const { account, inState, found } = await examine(usual, EMPTY_ACCOUNT);
    expect(account).toBe(TEST_ACCOUNT);
    expect(inState('fails')).toEqual(['Bootstrap', 'Lambda concurrency', 'Role of ECS']);
    expect(found('Bootstrap').mend).toBe(`npm run cdk -- bootstrap aws://${TEST_ACCOUNT}/${TEST_REGION}`);
    expect(found('Lambda concurrency').text).toMatch(/^10 executions at once: the deployment alone calls \d+ /);
    expect(found('Role of ECS').mend).toBe('aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com');
    expect(inState('warning')).toEqual(['Fargate processors', 'Role of load balancers', 'Role of auto scaling']);
    expect(found('Fargate processors').text).toContain('may use 10.5 at its own limit');
    expect(inState('unknown')).toEqual(['CloudFront']);
    expect(found('CloudFront').text).toContain('no request tells whether AWS has verified it');
  });

  test('the first stage of an empty account needs the bootstrap and executions only', async () => {
    const { inState } = await examine(bare, { ...EMPTY_ACCOUNT, quotas: { 'L-5ED1D25B': 0 } });
    expect(inState('fails')).toEqual(['Bootstrap', 'Lambda concurrency']);
    expect([...inState('warning'), ...inState('unknown')]).toEqual([]);
  });

  test('an old account has what every kind of stage needs', async () => {
    for (const [stage, state] of [
      [bare, OLD_ACCOUNT],
      [usual, OLD_ACCOUNT],
      [full, prepared],
      [vms, prepared],
      [own, prepared],
    ] as const) {
      const { findings } = await examine(stage, state);
      expect(findings.filter((each) => each.state !== 'ok')).toEqual([]);
      expect(findings.length).toBeGreaterThan(12);
    }
  });

  test('a stage that stands takes no more networks, executions or distributions', async () => {
    const stacks = Object.fromEntries(
      ['data', 'schedules', 'api', 'compute', 'services', 'web', 'observability'].map((name) => [
        `platform-full-${name}`,
        { status: 'UPDATE_COMPLETE' },
      ]),
    );
    const used = { vpcs: 5, internetGateways: 5, elasticIps: 20, distributions: 0, tables: ['platform-full-main'] };
    const { inState } = await examine(full, { ...prepared, ...used, reserved: 900, stacks });
    expect(inState('ok')).toContain('VPCs');
    expect([...inState('fails'), ...inState('warning'), ...inState('unknown')]).toEqual([]);
  });
});

/** What is changed in the prepared account -> the check that reports it, and a part of what it says. */
const BROKEN: readonly (readonly [StageFile, Partial<AccountState>, check: string, state: string, text: string])[] = [
  [usual, { bootstraps: { hnb659fds: 5 } }, 'Bootstrap', 'fails', 'version 5 of the bootstrap stack, 6 is needed'],
  [full, { bootstraps: { hnb659fds: 30 } }, 'Bootstrap', 'fails', 'with the qualifier agents'],
  [full, { policies: [] }, 'Permissions boundary', 'fails', 'no role can be created'],
  [full, { reserved: 500 }, 'Lambda concurrency', 'fails', 'reserves 500 executions, 400 of 1000'],
  [usual, { quotas: { 'L-B99A9384': 400 } }, 'Lambda concurrency', 'warning', '400 executions at once'],
  [usual, { quotas: { 'L-3032A538': 0 } }, 'Fargate processors', 'fails', 'needs 1 to begin'],
  [usual, { quotas: { 'L-36FBB829': 0 } }, 'Fargate Spot processors', 'warning', 'tasks on demand instead'],
  [usual, { quotas: { 'L-5ED1D25B': 0 } }, 'CodeBuild on ARM', 'fails', 'Cannot have more than 0 builds'],
  [usual, { vpcs: 4 }, 'VPCs', 'fails', '5 VPCs in the Region, 4 in use, 2 more'],
  [usual, { internetGateways: 5 }, 'Internet gateways', 'fails', '5 in use, 2 more'],
  [full, { elasticIps: 17 }, 'Elastic IPs', 'fails', '17 in use, 4 more'],
  [full, { quotas: { 'L-FE5A380F': 3 } }, 'NAT gateways', 'fails', '3 NAT gateways in a zone, 2 in use, 2 more'],
  [full, { zones: ['eu-west-1a', 'eu-west-1c'] }, 'Zones', 'fails', 'eu-west-1 has no eu-west-1b'],
  [own, { subnets: {} }, 'Your own network', 'fails', 'lacks some of subnet-'],
  [
    own,
    { subnets: { ...prepared.subnets, 'subnet-0123456789abcdef1': 'vpc-other' } },
    'Your own network',
    'fails',
    'subnet-0123456789abcdef1 are not in vpc-',
  ],
  [usual, { quotas: { 'L-8A5B8E43': 10 } }, 'Requests a second', 'warning', 'the lower ones apply'],
  [usual, { quotas: { 'L-01C8A9E0': 100 } }, 'Resources of the API', 'fails', '100 in an API, the platform has'],
  [full, { logRole: undefined }, 'Log role of API Gateway', 'fails', 'cannot write its log'],
  [full, { roles: ['AWSServiceRoleForECS'] }, 'Role of load balancers', 'fails', 'is missing'],
  [usual, { types: [] }, 'ECS gateways', 'fails', 'does not know AWS::ECS::Gateway'],
  [usual, { hasGateways: false }, 'ECS gateways', 'fails', 'ECS in eu-west-1 has no gateways'],
  [vms, { types: ['AWS::ECS::Gateway'] }, 'MicroVMs', 'fails', 'does not know AWS::Lambda::MicrovmImage'],
  [vms, { microvmVersions: undefined }, 'MicroVMs', 'fails', 'Lambda in eu-west-1 has no MicroVMs'],
  [vms, { microvmVersions: ['3'] }, 'MicroVMs', 'fails', 'has the versions 3, not 1'],
  [
    vms,
    { quotas: { 'L-535CA9B6': 1, 'L-CD1C0CC4': 8 } },
    'Starts of MicroVMs',
    'warning',
    '1 starts a second, 16 MicroVMs at once in 8 GB',
  ],
  [vms, { quotas: { 'L-CD1C0CC4': 0 } }, 'Starts of MicroVMs', 'fails', '0 MicroVMs at once'],
  [full, { certificates: {} }, 'Certificate of the API', 'fails', 'there is no certificate'],
  [
    full,
    { certificates: { [WEB_CERTIFICATE]: { status: 'PENDING_VALIDATION', names: ['agents.example.com'] } } },
    'Certificate of CloudFront',
    'fails',
    'is PENDING_VALIDATION',
  ],
  [
    full,
    { certificates: { [SERVICES_CERTIFICATE]: { status: 'ISSUED', names: ['services.example.com'] } } },
    'Certificate of services',
    'fails',
    'not for *.services.example.com',
  ],
  [full, { hostedZones: {} }, 'Hosted zone of services', 'fails', 'no hosted zone Z1'],
  [full, { hostedZones: { Z1: { name: 'ample.com' } } }, 'Hosted zone of services', 'fails', 'does not contain'],
  [
    full,
    { hostedZones: { Z1: { name: 'example.com', isPrivate: true } } },
    'Hosted zone of services',
    'fails',
    'private',
  ],
  [full, { keys: {} }, 'Key', 'fails', 'there is no key'],
  [
    full,
    { keys: { [KEY]: { state: 'PendingDeletion', spec: 'SYMMETRIC_DEFAULT' } } },
    'Key',
    'fails',
    'PendingDeletion',
  ],
  [full, { keys: { [KEY]: { state: 'Enabled', spec: 'RSA_2048' } } }, 'Key', 'fails', 'RSA_2048'],
  [full, { identities: {} }, 'Sender of mail', 'warning', 'knows neither'],
  [full, { identities: { 'example.com': false } }, 'Sender of mail', 'warning', 'not verified'],
  [full, { sendsToAll: false }, 'Sender of mail', 'warning', 'in its sandbox'],
  [full, { topics: {} }, 'Topic of alarms', 'fails', 'there is no topic'],
  [full, { topics: { [TOPIC]: publishers('events') } }, 'Topic of alarms', 'fails', 'does not let cloudwatch, budgets'],
  [full, { secrets: { ...prepared.secrets, 'full/oidc': true } }, 'Secret of oidc', 'fails', 'is being deleted'],
  [full, { secrets: {} }, 'Secret of stripe', 'fails', 'full/stripe does not exist'],
  [usual, { tables: ['platform-dev-main'] }, 'Tables of an earlier stage', 'fails', 'exists without its stack'],
  ...(
    [
      ['ROLLBACK_COMPLETE', 'warning', 'the CDK deletes it'],
      ['CREATE_FAILED', 'fails', 'CREATE_FAILED'],
      ['ROLLBACK_FAILED', 'fails', 'ROLLBACK_FAILED'],
      ['DELETE_FAILED', 'fails', 'DELETE_FAILED'],
      ['UPDATE_ROLLBACK_FAILED', 'fails', 'UPDATE_ROLLBACK_FAILED'],
      ['UPDATE_IN_PROGRESS', 'fails', 'something else changes it'],
      ['REVIEW_IN_PROGRESS', 'ok', 'REVIEW_IN_PROGRESS'],
      ['UPDATE_ROLLBACK_COMPLETE', 'ok', 'UPDATE_ROLLBACK_COMPLETE'],
    ] as const
  ).map(
    ([status, state, text]) =>
      [usual, { stacks: { 'platform-dev-api': { status } } }, 'Stack api', state, text] as const,
  ),
];

test.each(BROKEN)('%#: what is missing is named by one check', async (stage, change, check, state, text) => {
  const changed = { ...prepared, ...change, quotas: { ...prepared.quotas, ...change.quotas } };
  const { found } = await examine(stage, changed);
  expect(found(check)).toMatchObject({ state, text: expect.stringContaining(text) });
  if (state === 'fails') expect(found(check).mend).toBeTruthy();
});

test('a protected stack whose creation failed blocks, and the reason of a failure is shown', async () => {
  const stacks = {
    'platform-dev-data': { status: 'ROLLBACK_COMPLETE', isProtected: true },
    'platform-dev-api': { status: 'UPDATE_ROLLBACK_FAILED', reason: 'The role is gone' },
  };
  const { found } = await examine(usual, { ...prepared, stacks });
  expect(found('Stack data')).toMatchObject({
    state: 'fails',
    mend: expect.stringContaining('--no-enable-termination'),
  });
  expect(found('Stack api')).toMatchObject({
    text: 'UPDATE_ROLLBACK_FAILED: The role is gone',
    mend: 'aws cloudformation continue-update-rollback --stack-name platform-dev-api',
  });
});

describe('requests without a result', () => {
  test('a right that is missing leaves its checks open, and names itself', async () => {
    const actions = policy.Statement.flatMap(({ Action }) => Action);
    const { inState, findings } = await examine(full, prepared, {
      ...Object.fromEntries(actions.map((action) => [action, 'denied' as const])),
    });
    expect([...inState('fails'), ...inState('warning')]).toEqual([]);
    expect(inState('ok')).toEqual(['Credentials']);
    for (const { state, text } of findings) {
      if (state === 'unknown') expect(text).toMatch(/^these credentials may not \w+:\w+$/);
    }
    const { found } = await examine(usual, OLD_ACCOUNT, { 'ssm:GetParameter': 'denied' });
    expect(found('Bootstrap')).toMatchObject({ state: 'unknown', text: 'these credentials may not ssm:GetParameter' });
    expect(found('VPCs').state).toBe('ok');
  });

  test('an account that is throttled is not judged', async () => {
    const { inState, found } = await examine(full, prepared, {
      ...Object.fromEntries(
        policy.Statement.flatMap(({ Action }) => Action).map((action) => [action, 'throttled' as const]),
      ),
    });
    expect(inState('fails')).toEqual([]);
    for (const check of ['Stack api', 'VPCs', 'Role of ECS', 'Lambda concurrency', 'CloudFront', 'Key']) {
      expect(found(check), check).toMatchObject({
        state: 'unknown',
        text: expect.stringContaining('run the doctor again'),
      });
    }
  });

  test('a connection that breaks leaves the check open', async () => {
    const { found } = await examine(usual, OLD_ACCOUNT, { 'ec2:DescribeVpcs': 'dropped' });
    expect(found('VPCs')).toMatchObject({
      state: 'unknown',
      text: expect.stringContaining('cannot be reached for ec2:DescribeVpcs'),
    });
  });

  test('an error that nobody expected is told', async () => {
    const { found } = await examine(usual, OLD_ACCOUNT, { 'iam:GetRole': { code: 'ServiceFailure', status: 500 } });
    expect(found('Role of ECS')).toMatchObject({
      state: 'unknown',
      text: expect.stringContaining('iam:GetRole failed: ServiceFailure'),
    });
  });

  test.each([
    [
      { code: 'InvalidClientTokenId', status: 403 },
      /does not accept the credentials in eu-west-1.*InvalidClientTokenId/,
    ],
    [{ code: 'ExpiredToken', status: 403 }, /^the credentials have expired$/],
    ['dropped', /cannot be reached for sts:GetCallerIdentity/],
  ] as const)('without a caller nothing else is asked: %j', async (fault, text) => {
    const { findings, calls } = await examine(usual, OLD_ACCOUNT, { 'sts:GetCallerIdentity': fault });
    expect(findings).toMatchObject([{ check: 'Credentials', state: 'fails', text: expect.stringMatching(text) }]);
    expect(calls.every(({ action }) => action === 'sts:GetCallerIdentity')).toBe(true);
  });

  test('a name that is no Region is said to be one reason', async () => {
    const { findings } = await diagnose(usual, 'eu-nowhere-1');
    expect(findings).toMatchObject([
      {
        state: 'fails',
        text: expect.stringContaining('sts.eu-nowhere-1.amazonaws.com'),
        mend: expect.stringContaining('is a Region of AWS'),
      },
    ]);
  });

  test('a Region must be chosen', async () => {
    expect((await diagnose(usual, undefined)).findings).toMatchObject([
      { state: 'fails', text: 'no Region is chosen' },
    ]);
  });
});

describe('resources in another Region', () => {
  test.each([
    ['Key', { keyArn: KEY.replace(TEST_REGION, 'us-west-2') }],
    ['Topic of alarms', { alarms: { topicArn: TOPIC.replace(TEST_REGION, 'us-west-2') } }],
    [
      'Certificate of the API',
      { domain: { ...full.domain!, certificateArn: CERTIFICATE.replace(TEST_REGION, 'us-west-2') } },
    ],
  ])('%s', async (check, change) => {
    const { found } = await examine({ ...full, ...change }, prepared);
    expect(found(check)).toMatchObject({
      state: 'fails',
      text: expect.stringContaining('is in us-west-2, the stage in eu-west-1'),
    });
  });

  test('the certificate of CloudFront is looked for in its Region', async () => {
    const { calls } = await examine(full, prepared);
    const regions = calls.filter(({ action }) => action === 'acm:DescribeCertificate').map(({ region }) => region);
    expect(regions.sort()).toEqual([TEST_REGION, TEST_REGION, 'us-east-1']);
  });
});

test('the policy has the rights of the requests, no other, and none that changes or reveals something', async () => {
  const asked = new Set<string>();
  const parameters = new Set<string>();
  for (const [stage, state] of [
    [full, prepared],
    [vms, prepared],
    [own, prepared],
    [usual, EMPTY_ACCOUNT],
  ] as const) {
    const { calls } = await examine(stage, state);
    for (const { action, input } of calls) {
      asked.add(action);
      if (action === 'ssm:GetParameter') parameters.add(input.Name!);
    }
  }
  // Needs no right.
  asked.delete('sts:GetCallerIdentity');
  const granted = policy.Statement.flatMap(({ Action }) => Action);
  expect(granted.toSorted()).toEqual([...asked].toSorted());
  for (const action of granted) expect(action).toMatch(/^[\w-]+:(Describe|Get|List|GET)/);
  const [, { Resource }] = policy.Statement as unknown as [object, { Resource: string }];
  const prefix = Resource.replace('arn:*:ssm:*:*:parameter', '').replace('*', '');
  for (const name of parameters) expect(name.startsWith(prefix)).toBe(true);
});

test('the command prints a line for each check, and fails if something would', async () => {
  const aws = await startScriptedAws(EMPTY_ACCOUNT);
  onTestFinished(() => aws.close());
  const run = async (...args: string[]) => {
    const env = { ...process.env, AWS_ENDPOINT_URL: aws.url, AWS_REGION: TEST_REGION };
    const child = spawn(process.execPath, [join(import.meta.dirname, '../aws-doctor.ts'), ...args], { env });
    const [out, [code]] = await Promise.all([child.stdout.toArray(), once(child, 'close')]);
    return { out: Buffer.concat(out).toString(), code };
  };
  const { out, code } = await run();
  expect(code).toBe(1);
  const lines = out.trim().split('\n');
  expect(lines[0]).toBe(
    `ok               Credentials: arn:aws:sts::${TEST_ACCOUNT}:assumed-role/reader/me in ${TEST_REGION}`,
  );
  expect(lines).toContain(
    `fails            Bootstrap: ${TEST_REGION} is not bootstrapped with the qualifier hnb659fds -> npm run cdk -- bootstrap aws://${TEST_ACCOUNT}/${TEST_REGION}`,
  );
  expect(lines.at(-1)).toMatch(/^Stage dev: \d+ ok, 3 warning, 3 fails, 1 cannot be known\.$/);
  const json = await run('prod', '--json');
  expect(JSON.parse(json.out)).toMatchObject({ stage: 'prod', region: TEST_REGION, account: TEST_ACCOUNT });
  expect((await run('--help')).out).toContain('npm run aws:doctor');
});

test('it reads an account of moto, which speaks the same protocols', async () => {
  vi.stubEnv('AWS_ENDPOINT_URL', inject('awsEndpoints').moto);
  const { findings } = await diagnose(usual, TEST_REGION);
  const stateOf = (check: string) => findings.find((each) => each.check === check)!;
  expect(stateOf('Credentials')).toMatchObject({ state: 'ok', text: expect.stringContaining(TEST_ACCOUNT) });
  for (const check of ['Bootstrap', 'Role of ECS']) expect(stateOf(check).state, check).toBe('fails');
  for (const check of ['Stack data', 'Stack api', 'Tables of an earlier stage']) {
    expect(stateOf(check), check).toMatchObject({ state: 'ok' });
  }
});
