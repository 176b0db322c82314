import { CreateTableCommand } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { CreateScheduleGroupCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { inject } from 'vitest';
import { awsDeps } from '#aws/all-deps.ts';
import { parseConfig } from '#core/config.ts';
import type { Deps } from '#core/deps.ts';
import type { EventName } from '#core/events.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { grantCreditsTo, setPlan } from '#core/limits/operator.ts';
import { bootstrap } from '#core/workspaces/bootstrap.ts';
import { defineStage, functionNameOf } from '#lib/config.ts';
import { BUNDLES, buildFunctions } from '../../scripts/build-functions.ts';
import { dynamoDbClient } from './aws.ts';
import { startFakeLambda } from './fake-lambda.ts';
import { startLambdaHost } from './lambda-host.ts';
import type { Target } from './platform.ts';
import { startPolicyGate } from './policy-gate.ts';
import { makeDue } from './schedules.ts';
import { startScriptedLlm } from './scripted-llm/server.ts';
import { environmentOf, policyOf, rendered, resourcesOf, synthesise, TEST_REGION, type Template } from './templates.ts';
import { addMember, addUser } from './users.ts';

const STAGE = defineStage({
  name: 'e2e',
  keepsData: false,
  logLevel: 'error',
  logRetentionDays: 7,
  runRetentionDays: 7,
  throttle: { requestsPerSecond: 1, burst: 1 },
  // Tests are one client that knocks without a key again and again.
  settings: {
    PLATFORM_ADDRESS_LIMIT: '100000',
    // Receivers of tests are on this machine.
    PLATFORM_OUTBOUND_HOSTS: '127.0.0.1',
  },
});
const ACCOUNT = { AWS_REGION: TEST_REGION, AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

export interface AwsTarget extends Target {
  /** What functions asked for that their policies do not allow. */
  readonly refused: ReadonlySet<string>;
  /** Rights on tables, blobs and secrets that no function has used yet: `<function> <action> <resource>`. */
  unused(): string[];
  /** With the rights of an operator. */
  readonly deps: Deps;
  /** Calls a function that the clock calls. */
  tick(name: EventName): Promise<void>;
}

/**
 * The platform as the stacks describe it, on the emulators: the tables and the bucket of the template, and each bundle
 * with its function's environment and under its function's policy.
 */
export async function startAwsTarget(): Promise<AwsTarget> {
  const { data, schedules, api } = synthesise(STAGE);
  await buildFunctions();
  await createData(data);
  await createTimerGroup(schedules);
  const { dynamoDb, moto } = inject('awsEndpoints');
  const lambda = await startFakeLambda((name, event) =>
    host.invoke(name.slice(functionNameOf(STAGE, '').length) as EventName, event),
  );
  const gate = await startPolicyGate(
    { dynamodb: dynamoDb, lambda: lambda.url, s3: moto, scheduler: moto, secretsmanager: moto },
    (fn) => policyOf(api, fn).allowed,
  );
  const llm = await startScriptedLlm();
  const host = await startLambdaHost((url) => ({
    bundles: BUNDLES,
    environmentOf: (fn) => ({
      ...environmentOf(api, fn),
      ...ACCOUNT,
      ...gate.environmentOf(fn),
      PLATFORM_BASE_URL: url,
      ...llm.settings,
    }),
  }));

  // What an operator does, with rights of his own.
  Object.assign(process.env, ACCOUNT, { AWS_ENDPOINT_URL: moto, AWS_ENDPOINT_URL_DYNAMODB: dynamoDb });
  const deps = awsDeps(parseConfig({ ...environmentOf(api, 'calls'), PLATFORM_WORKSPACE: 'acme' }));
  const key = await bootstrap(deps);
  return {
    url: host.url,
    key: key!,
    slug: 'acme',
    deps,
    async tick(name) {
      const { payload } = await host.invoke(name, { 'detail-type': 'Scheduled Event' });
      await Array.fromAsync(payload);
    },
    addUser: (slug) => addUser(deps, slug),
    addMember: (user, workspaceId) => addMember(deps, user, workspaceId),
    setPlan: async (workspaceId, plan) => void (await setPlan(deps, workspaceId, plan)),
    grantCredits: async (slug, cents) => void (await grantCreditsTo(deps, `${slug}=${cents}`)),
    async fire(workspaceId, scheduleId) {
      const minute = await makeDue(deps, workspaceId, scheduleId);
      const body = JSON.stringify({
        workspace_id: workspaceId,
        schedule_id: scheduleId,
        scheduled_time: new Date(minute).toISOString(),
      });
      // Delivered twice, as it may be.
      const Records = ['1', '2'].map((messageId) => ({ messageId, body }));
      const { payload } = await host.invoke('schedule-fired', { Records });
      const answer = Buffer.concat(await Array.fromAsync(payload)).toString();
      if (answer !== '{"batchItemFailures":[]}') throw new Error(`the batch was answered with ${answer}`);
    },
    llm,
    interpreters: {},
    refused: gate.refused,
    unused: () => grantsOf(api).filter((grant) => !gate.used.has(grant)),
    async close() {
      await lambda.close();
      await host.close();
      await gate.close();
      await llm.close();
    },
  };
}

const grantsOf = (api: Template): string[] =>
  FUNCTION_NAMES.flatMap((fn) =>
    Object.entries(policyOf(api, fn).allowed).flatMap(([arn, actions]) =>
      actions.filter((action) => !/^(logs|xray):/.test(action)).map((action) => `${fn} ${action} ${arn}`),
    ),
  );

async function createTimerGroup(schedules: Template): Promise<void> {
  const scheduler = new SchedulerClient({
    region: TEST_REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: inject('awsEndpoints').moto,
  });
  for (const [, { Properties }] of resourcesOf(schedules, 'AWS::Scheduler::ScheduleGroup')) {
    await scheduler.send(new CreateScheduleGroupCommand({ Name: Properties.Name }));
  }
}

async function createData(data: Template): Promise<void> {
  const dynamoDb = dynamoDbClient();
  for (const [, { Properties }] of resourcesOf(data, 'AWS::DynamoDB::GlobalTable')) {
    const { TableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes } = Properties;
    await dynamoDb.send(
      new CreateTableCommand({ TableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes }),
    );
  }
  const s3 = new S3Client({
    region: TEST_REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: inject('awsEndpoints').moto,
    forcePathStyle: true,
  });
  for (const [, { Properties }] of resourcesOf(data, 'AWS::S3::Bucket')) {
    if (Properties.BucketName === undefined) continue;
    const CreateBucketConfiguration = { LocationConstraint: TEST_REGION } as const;
    await s3.send(new CreateBucketCommand({ Bucket: rendered(Properties.BucketName), CreateBucketConfiguration }));
  }
}
