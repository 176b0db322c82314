import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { AssociateGatewayWithClusterCommand, CreateGatewayCommand, ECSClient } from '@aws-sdk/client-ecs';
import { KMSClient } from '@aws-sdk/client-kms';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { CreateScheduleGroupCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { awsDeps } from '#aws/all-deps.ts';
import { parseAwsConfig } from '#aws/config.ts';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import type { BackgroundFunctionName } from '#core/api/background.ts';
import { grantCreditsTo, setPlan } from '#core/billing/operator/operate.ts';
import type { FunctionName } from '#core/http/route.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { defineStage, functionNameOf, PROGRAM_RISKS, platformNameOf, timerNamesOf } from '#lib/config.ts';
import type { MICROVM_FUNCTIONS, PoolFunctionName } from '#lib/functions.ts';
import { startScriptedStripe } from '#local/scripted-stripe/server.ts';
import { runnerHealth } from '#runner/server/client.ts';
import { createKmsKey } from '#test/helpers/aws.ts';
import { AWS_TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import type { AwsEndpoints } from '#test/helpers/aws-emulators.ts';
import { type FakeEcs, type FakeEvent, startFakeEcs } from '#test/helpers/fake-ecs/fake-ecs.ts';
import { startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { startFakeLambdaAdmin } from '#test/helpers/fake-lambda-admin.ts';
import { type FakeMicrovms, startFakeMicrovms } from '#test/helpers/fake-microvms.ts';
import type { Target } from '#test/helpers/platform.ts';
import { functionCommand, startRunner } from '#test/helpers/runner.ts';
import { startRunnerTask } from '#test/helpers/runner-task.ts';
import { makeDue } from '#test/helpers/schedules.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { StreamReader } from '#test/helpers/stream-reader.ts';
import { synthesiseAnew } from '#test/helpers/templates.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { BUNDLES } from '../../scripts/build-functions.ts';
import { fetchLambdaRuntime } from '../../scripts/fetch-test-tools.ts';
import { accountFor } from './accounts.ts';
import { Alarms } from './alarms.ts';
import { type Assembly, type Deployed, readAssembly } from './assembly.ts';
import { type AwsGate, accessKeyOf, startAwsGate, withSignature } from './aws-gate.ts';
import { applyChanges, type Deployment } from './change-set.ts';
import { type CloudFront, startCloudFront } from './cloud-front.ts';
import { keysOf } from './dependent-actions.ts';
import { ecsReader } from './ecs-wire.ts';
import { type EventBridge, startEventBridge } from './event-bridge.ts';
import { type EventSources, startEventSources } from './event-sources.ts';
import { allowing, NOTHING, policiesOf, type Statement } from './iam.ts';
import { inTurn } from './in-turn.ts';
import { type Lambda, startLambda } from './lambda.ts';
import { startLoadBalancer } from './load-balancer.ts';
import { Logs } from './logs.ts';
import { microvmReader } from './microvm-wire.ts';
import { type RestApi, startRestApi } from './rest-api.ts';
import { type Scheduler, startScheduler } from './scheduler.ts';
import { startServiceTasks } from './service-tasks.ts';
import { SERVICES_WIRE } from './services-wire.ts';
import { startWebFunction, type WebFunction, type WebRequest } from './web-function.ts';
import { WIRE } from './wire.ts';

export interface Rehearsal extends Target {
  readonly gate: AwsGate;
  readonly lambda: Lambda;
  /** The server of calls, if the stage has one. */
  readonly callServer: WebFunction | undefined;
  /** Name prefix of the stacks. */
  readonly platform: string;
  /** Address that mail comes from. SES refuses it until a test verifies it. */
  readonly sender: string;
  /** Address of Lambda's administrative API. */
  readonly lambdaAdmin: string;
  readonly events: EventBridge;
  readonly sources: EventSources;
  readonly scheduler: Scheduler;
  /** Group of the schedules that the platform creates. */
  readonly timerGroup: string;
  /** Rights without any use so far: `<principal> <action> <resource>`, with `stage` for the name of the stage. */
  unused(): string[];
  /** Dependencies with the rights of an operator. */
  readonly deps: Deps;
  /** Invokes the function of a scheduled event. */
  tick(name: BackgroundFunctionName | PoolFunctionName | keyof typeof MICROVM_FUNCTIONS): Promise<void>;
  /** Runs the keeper of services for one of its minutes. */
  tickServices(): Promise<void>;
  /** Deploys the same stage over the current deployment with other function bundles. */
  deploy(bundles: string): Promise<Deployment>;
  readonly api: Pick<RestApi, 'canary' | 'accessLog'>;
  /** CloudFront, where the stage has it. */
  readonly front?: CloudFront;
  /** Deletes a custom resource of this type as CloudFormation does; its answer goes to `answerTo`. */
  deleteResource(type: string, answerTo: string): Promise<void>;
  readonly ecs: FakeEcs;
  readonly logs: Logs;
  /** Set where programs run in MicroVMs. */
  readonly microvms?: FakeMicrovms;
  /** Faults that a test injects. */
  readonly chaos: Chaos;
}

interface RehearsalOptions {
  /** Kind of sandboxes; with `none`, the stage has no services either. @default fargate */
  readonly sandbox?: 'fargate' | 'microvm' | 'none';
  /** Whether CloudFront stands before the API. @default false */
  readonly hasFront?: boolean;
  /** Whether short programs run in a Lambda function. @default false */
  readonly hasPrograms?: boolean;
  /** Name of the stage. */
  readonly name?: string;
  /** Letter of its cell. @default a */
  readonly cell?: string;
  /** Where its secrets are. @default envelope with MicroVMs, else Secrets Manager */
  readonly secrets?: 'secrets-manager' | 'envelope';
  /** What serves calls. @default functions */
  readonly calls?: 'functions' | 'web';
  /** Functions with compile caches. @default - none, because making them is slow */
  readonly cached?: readonly FunctionName[];
}

interface Chaos {
  /** Called before a function invokes another one. @default - nothing */
  // biome-ignore lint/suspicious/noExplicitAny: an event of any function.
  onCall?: (functionName: string, event: any) => void;
  /** Handles an event of ECS. @default - delivers it once */
  onTaskEvent?: (deliver: () => Promise<void>, event: FakeEvent) => unknown;
  /** Whether the clock of the service keeper advances only on request of a test. */
  holdsServiceClock?: boolean;
}

/** Pool size; tasks are local processes that start in a second or two. */
export const POOL = { idle: 3, max: 20, startSeconds: 1 };
/** Canary period of a release, instead of minutes. */
const CANARY_SECONDS = 12;
/** Delay until the address of a service exists. */
const ROUTE_MS = 500;
/** Instead of 15 minutes. */
const WORKER_TIMEOUT_SECONDS = 185;
/** Shortest minute of the clock of schedules: it asks for 256 parts of an index, and tests pass a minute twice a second. */
const SCHEDULES_MINUTE_MS = 10_000;
/** Length of a service keeper's minute while services exist. */
const SERVICES_MINUTE_MS = 2000;
/** Bedrock settings of the stage with MicroVMs, in another Region than the stage. */
const BEDROCK = {
  via: 'bedrock',
  region: 'eu-central-1',
  models: { 'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5' },
};
/** Names of the stages by their sandboxes. */
const NAMES = { fargate: 'e2e', microvm: 'vms', none: 'bare' };
const OPERATOR = 'operator';
const EVERYTHING: Statement = { ...NOTHING, actions: ['*'], resources: ['*'] };

/**
 * Runs the platform on this machine as `cdk synth` describes it. Tables and bucket are created in the emulators. The
 * template's API calls its functions, each in Lambda's own runtime client with the template's environment. A gate
 * checks their requests to AWS against the policies of their roles. The bundles of the functions must exist.
 */
export async function startRehearsal(
  emulators: AwsEndpoints,
  {
    sandbox = 'fargate',
    calls: callsOn = 'functions',
    hasFront = false,
    hasPrograms = false,
    name = NAMES[sandbox],
    cell = 'a',
    secrets: secretsIn = sandbox === 'microvm' ? 'envelope' : 'secrets-manager',
    cached = [],
  }: RehearsalOptions = {},
): Promise<Rehearsal> {
  const runtime = fetchLambdaRuntime();
  const llm = await startScriptedLlm({
    aws: { region: BEDROCK.region, secretOf: () => AWS_TEST_ACCOUNT.credentials.secretAccessKey },
  });
  const stripe = await startScriptedStripe({ clock: new SystemClock() });
  const api = await startRestApi();
  const stripeSecret = `${name}/stripe`;
  const operatorSecret = `${name}/operator`;
  const operatorKey = randomUUID();
  const sender = `platform@${name}.example.com`;
  const hosted = {
    fargate: { kind: 'fargate', idle: POOL.idle, max: POOL.max },
    microvm: { kind: 'microvm' },
    none: { kind: 'none' },
  } as const;
  const stage = defineStage({
    name,
    keepsData: false,
    logLevel: 'error',
    logRetentionDays: 7,
    runRetentionDays: 7,
    throttle: { requestsPerSecond: 10_000, burst: 5_000 },
    ...(hasFront ? { web: {} } : { baseUrl: api.url, web: { kind: 'off' } }),
    ...(sandbox === 'none' && { services: { kind: 'off' } }),
    mailFrom: sender,
    stripe: { secretName: stripeSecret },
    operator: { secretName: operatorSecret },
    settings: {
      // All tests share one address that sends many requests without a key.
      PLATFORM_ADDRESS_LIMIT: '100000',
      // Receivers of the tests listen on this machine.
      PLATFORM_OUTBOUND_HOSTS: '127.0.0.1',
      PLATFORM_POOL_START_SECONDS: String(POOL.startSeconds),
      PLATFORM_STRIPE_URL: stripe.url,
      ...llm.settings,
      // The functions' environments share this machine's network, where the ports of the proxy are taken.
      ...(hasPrograms && { PLATFORM_SANDBOX_EGRESS: 'none' }),
      ...(sandbox === 'microvm' && { PLATFORM_TRANSPORTS: JSON.stringify({ anthropic: BEDROCK }) }),
    },
    egressPorts: [5432],
    calls: callsOn,
    secrets: secretsIn,
    cell,
    sandbox: { ...hosted[sandbox], ...(hasPrograms && { lambda: { acknowledges: PROGRAM_RISKS } }) },
    // With 50 percent, few requests are enough to meet both versions.
    release: { percent: 50 },
  });
  const assemble = (bundles: string, before?: Assembly): Assembly => {
    // The tests of the stacks have templates checked.
    const { folder, stacks } = synthesiseAnew(stage, bundles, { isChecked: false });
    const read = readAssembly(folder, stacks, before);
    // Clients are let in on a dashboard, whose pages nothing reads here.
    const keys = functionsOf(read).find(({ properties }) => properties.FunctionName === functionNameOf(stage, 'keys'));
    if (!hasFront) keys!.properties.Environment.Variables.PLATFORM_DASHBOARD_URL = `${api.url}/dashboard`;
    return read;
  };
  const assembly = assemble(BUNDLES);
  await createData(assembly, emulators);
  const functions = functionsOf(assembly);
  // It leaves a durable run when three minutes of its time are left: here, each run after five seconds.
  const worker = functions.find(({ properties }) => properties.FunctionName === functionNameOf(stage, 'loop-worker'));
  worker!.properties.Timeout = WORKER_TIMEOUT_SECONDS;
  // The API's own name leads to this machine.
  const [restApi] = assembly.of('AWS::ApiGateway::RestApi');
  const named = `https://${restApi!.id}.execute-api.${TEST_REGION}.amazonaws.com/${name}`;
  for (const { properties } of functions) {
    const variables: Record<string, string> = properties.Environment?.Variables ?? {};
    for (const [variable, value] of Object.entries(variables)) if (value === named) variables[variable] = api.url;
  }
  const front = hasFront ? await startCloudFront(assembly, { api: api.url }) : undefined;
  const policies = policiesByPrincipal(assembly);
  const chaos: Chaos = {};
  // Only two tasks start at a time: if all started at once, none would be ready for long.
  const starting: Promise<unknown>[] = [Promise.resolve(), Promise.resolve()];
  let started = 0;
  const lambdaApi = await startFakeLambda(async (name, event, how, tenantId) => {
    chaos.onCall?.(name, event);
    if (how !== 'Event') return lambda.invoke(name, event, undefined, { tenantId });
    lambda.invokeLater(name, event);
    return { isStream: false, payload: Readable.from([]) };
  });
  const logs = new Logs(emulators.moto);
  const serviceTasks = await startServiceTasks(logs);
  const loadBalancer = await startLoadBalancer({
    route: async (host) => ecs.gateways.serviceAt(host),
    targets: (serviceArn) => ecs.services.targetsOf(serviceArn),
  });
  const ecs = await startFakeEcs({
    clusters: assembly.of('AWS::ECS::Cluster').map(({ properties }) => properties.ClusterName),
    taskDefinitions: assembly.of('AWS::ECS::TaskDefinition').map(({ arn }) => arn),
    routeMs: ROUTE_MS,
    drained: (address) => loadBalancer.drained(address),
    start(task, address, definition) {
      if (definition !== undefined) return serviceTasks.start(task, address, definition);
      const row = started++ % starting.length;
      const runner = starting[row]!.then(() => startRunnerTask(task, address));
      starting[row] = runner.catch(() => {});
      return runner;
    },
    onEvent(event) {
      const deliver = () => events.put(event);
      const delivered = Promise.resolve(chaos.onTaskEvent ? chaos.onTaskEvent(deliver, event) : deliver());
      // EventBridge does not wait for one delivery before the next.
      delivered.catch((error) => process.stderr.write(`event not delivered: ${error}\n`));
    },
  });
  const microvms = sandbox === 'microvm' ? await startFakeMicrovms() : undefined;
  const gate = await startAwsGate(
    {
      ecs: ecs.url,
      dynamodb: emulators.dynamoDb,
      s3: emulators.moto,
      secretsmanager: emulators.moto,
      kms: emulators.moto,
      sqs: emulators.moto,
      scheduler: emulators.moto,
      ses: emulators.moto,
      logs: logs.service,
      elasticloadbalancing: emulators.moto,
      'application-autoscaling': emulators.moto,
      lambda: lambdaApi.url,
      apigateway: api.control,
      monitoring: (request, response) => alarms.control(request, response),
      bedrock: withSignature(llm.url),
      ...(microvms && { microvms: microvms.url }),
    },
    { ...policies, [OPERATOR]: [EVERYTHING] },
    {
      ...WIRE,
      ...SERVICES_WIRE,
      ecs: ecsReader(assembly.of('AWS::ECS::TaskDefinition')),
      ...(microvms && { microvms: microvmReader(microvms) }),
    },
    keysOf(assembly),
  );
  const cachedNames = new Set(cached.map((each) => functionNameOf(stage, each)));
  const lambda = startLambda(
    assembly,
    runtime,
    (fn) => ({ ...accountOf(gate, shortName(fn.properties.FunctionName)), PLATFORM_BEDROCK_URL: gate.url }),
    ({ properties }) => cachedNames.has(properties.FunctionName),
    (variables) => functionCommand(variables),
  );
  api.serve(
    assembly,
    async (functionArn, event, roleArn, onBegin) => {
      const ask = { action: 'lambda:InvokeFunction', resource: functionArn };
      // Usage lags by two seconds, for which no test waits. Calls do not read it.
      if (!functionArn.includes(functionNameOf(stage, 'calls'))) await sources.deliverStreams();
      if (
        isTakenBy('apigateway.amazonaws.com', roleOf(assembly, roleArn)) &&
        allowing(policiesOf(assembly, roleArn), ask)
      )
        return lambda.invoke(functionArn, event, onBegin);
      throw new Error(`${roleArn} may not call ${functionArn}`);
    },
    (host, request) => webs.send(host, request),
  );
  const webs = new WebFunctions((principal) => ({
    ...accountOf(gate, principal),
    PLATFORM_BEDROCK_URL: gate.url,
  }));
  webs.add(assembly);
  const alarms = new Alarms(assembly, {
    get accessLog() {
      return api.accessLog;
    },
    errors: lambda.errors,
  });
  let deployed = assembly;
  let schedulesSweptAt = 0;
  const events = startEventBridge(assembly, lambda);
  const sources = startEventSources(
    assembly,
    lambda,
    (functionName) => {
      return new SQSClient({ ...accountFor(shortName(functionName)), endpoint: gate.url });
    },
    (functionName, streamArn) => {
      const { accessKeyId } = accountFor(shortName(functionName)).credentials;
      return new StreamReader(gate.url, streamArn.split('/')[1]!, accessKeyId);
    },
  );
  const scheduler = startScheduler(new SchedulerClient({ ...accountFor(OPERATOR), endpoint: gate.url }), (roleArn) => {
    return new SQSClient({ ...accountFor(shortName(roleArn.split('/').at(-1)!)), endpoint: gate.url });
  });
  const timerGroup = timerNamesOf(stage).group;
  const lambdaAdmin = await startFakeLambdaAdmin({
    functions: functions.map(({ arn, properties: { FunctionName, Timeout, Environment } }) => ({
      ...{ name: FunctionName, arn, timeoutSeconds: Timeout, environment: Environment?.Variables ?? {} },
    })),
    reserved: lambda.reserved,
    provisioned: new Map(),
    readers: sources.readers,
  });

  const changeResource = async (RequestType: 'Create' | 'Delete', type: string, answerTo: string, changes: object) => {
    for (const { id, properties } of assembly.of(type)) {
      const { ServiceToken, ...ResourceProperties } = properties;
      const { payload } = await lambda.invoke(ServiceToken, {
        ...{ RequestType, ResponseURL: answerTo, StackId: 'stack', RequestId: randomUUID() },
        ...{ LogicalResourceId: id, PhysicalResourceId: id, ResourceType: type },
        ResourceProperties: { ...ResourceProperties, ...changes },
      });
      await Array.fromAsync(payload);
    }
  };
  // CloudFormation creates functions only after a custom resource confirms that they accept the stored data.
  const answered = Promise.withResolvers<{ Status: string; Reason?: string }>();
  const cloudFormation = createServer(async (request, response) => {
    answered.resolve(JSON.parse(Buffer.concat(await request.toArray()).toString()));
    response.end();
  }).listen(0, '127.0.0.1');
  await once(cloudFormation, 'listening');
  const answerTo = `http://127.0.0.1:${(cloudFormation.address() as AddressInfo).port}/`;
  await changeResource('Create', 'Custom::DataVersion', answerTo, {});
  const { Status, Reason } = await answered.promise;
  cloudFormation.close();
  if (Status !== 'SUCCESS') throw new Error(`the deployment was refused: ${Reason}`);

  // Operators act with their own rights.
  Object.assign(process.env, accountOf(gate, OPERATOR));
  const calls = functions.find(({ properties }) => properties.FunctionName === functionNameOf(stage, 'calls'))!;
  const deps = awsDeps(parseAwsConfig({ ...calls.properties.Environment.Variables, PLATFORM_WORKSPACE: 'acme' }));
  const key = await bootstrap(deps);
  const secrets = new SecretsManagerClient();
  for (const [Name, SecretString] of [
    [stripeSecret, JSON.stringify({ key: stripe.key, webhook_secret: stripe.webhookSecret })],
    [operatorSecret, operatorKey],
  ]) {
    await secrets.send(new CreateSecretCommand({ Name, SecretString }));
  }
  stripe.deliverTo(`${api.url}/webhooks/stripe`);
  // An upload waits ten seconds for its installation, including a cold start.
  await lambda.warm(functionNameOf(stage, 'install'), 1);
  if (sandbox === 'fargate') await events.tick(functionNameOf(stage, 'pool-keeper'));
  const hasServices = await createGateways(assembly, ecs);
  const tickServices = () => events.tick(functionNameOf(stage, 'service-keeper'));
  const closing = new AbortController();
  const minutes = passServiceMinutes(
    () => !chaos.holdsServiceClock && ecs.services.names.length > 0,
    tickServices,
    closing.signal,
  );
  return {
    url: api.url,
    key: key!,
    slug: 'acme',
    deps,
    gate,
    lambda,
    get callServer() {
      return webs.latest;
    },
    platform: platformNameOf(stage),
    sender,
    lambdaAdmin: lambdaAdmin.url,
    events,
    sources,
    scheduler,
    timerGroup,
    ecs,
    microvms,
    chaos,
    async tick(name) {
      await sources.deliverStreams();
      await events.tick(functionNameOf(stage, name));
    },
    seesClientsLeave: false,
    passMinute: inTurn(async () => {
      await sources.deliverStreams();
      const isDue = Date.now() - schedulesSweptAt > SCHEDULES_MINUTE_MS;
      if (isDue) schedulesSweptAt = Date.now();
      const names = isDue ? (['schedule-sweeper', 'sweeper'] as const) : (['sweeper'] as const);
      await Promise.all(names.map((name) => events.tick(functionNameOf(stage, name))));
    }),
    tickServices,
    async deploy(bundles) {
      const next = assemble(bundles, deployed);
      webs.add(next);
      const overrides = { ApiGatewayUrl: gate.url, CloudWatchUrl: gate.url, Seconds: String(CANARY_SECONDS) };
      const deployment = await applyChanges(deployed, next, { lambda, api, alarms, overrides });
      if (deployment.failure === undefined) deployed = next;
      return deployment;
    },
    api,
    front,
    // No keeper is in flight here, so there is nothing to wait for.
    deleteResource: (type, answerTo) => changeResource('Delete', type, answerTo, { SettleSeconds: '0' }),
    operatorKey,
    addUser: (slug) => addUser(deps, slug),
    addMember: (user, workspaceId) => addMember(deps, user, workspaceId),
    setPlan: async (workspaceId, plan) => void (await setPlan(deps, workspaceId, plan)),
    grantCredits: async (slug, cents) => void (await grantCreditsTo(deps, `${slug}=${cents}`)),
    async fire(workspaceId, scheduleId) {
      const minute = await makeDue(deps, workspaceId, scheduleId);
      const [timer] = await scheduler.names(timerGroup, scheduleId);
      // EventBridge Scheduler may deliver twice.
      for (let i = 0; i < 2; i++) await scheduler.fire(timerGroup, timer!, new Date(minute));
      const failed = await sources.deliver();
      if (failed.length > 0) throw new Error(`the function gave messages back: ${failed.map(({ body }) => body)}`);
    },
    llm,
    stripe,
    interpreters: await interpretersHere(),
    services: hasServices ? { connection: () => ({ host: '127.0.0.1', port: loadBalancer.port }) } : undefined,
    logs,
    unused: () => {
      const unused = grantsOf(policies).filter((grant) => !gate.used.has(grant));
      return unused.map((grant) => grant.replaceAll(new RegExp(`\\b${name}\\b`, 'g'), 'stage'));
    },
    async close() {
      closing.abort();
      await minutes;
      await front?.close();
      await api.close();
      await loadBalancer.close();
      // Tasks that end now must not be replaced.
      chaos.onTaskEvent = () => {};
      await ecs.close();
      await serviceTasks.close();
      await webs.close();
      await lambda.close();
      await lambdaApi.close();
      lambdaAdmin.close();
      await microvms?.close();
      await gate.close();
      await llm.close();
      await stripe.close();
    },
  };
}

/** The web functions of assemblies, by the host of their endpoints. */
class WebFunctions {
  readonly #variables: (principal: string) => Readonly<Record<string, string>>;
  readonly #byHost = new Map<string, WebFunction>();

  constructor(variables: (principal: string) => Readonly<Record<string, string>>) {
    this.#variables = variables;
  }

  get latest(): WebFunction | undefined {
    return [...this.#byHost.values()].at(-1);
  }

  add(assembly: Assembly): void {
    const [revision] = assembly.of('AWS::Lambda::WebFunctionRevision');
    const [stage] = assembly.of('AWS::ApiGateway::Stage');
    const host = stage!.properties.Variables.call_server;
    if (revision === undefined || this.#byHost.has(host)) return;
    const [copy] = assembly.of('Custom::S3ObjectCopy');
    const role = functionsOf(assembly).find(
      ({ properties }) => properties.Role === revision.properties.ServiceConfig.ExecutionRoleArn,
    );
    const variables = this.#variables(shortName(role!.properties.FunctionName));
    const folder = assembly.assetFolder(copy!.properties.SourceObjectKey);
    this.#byHost.set(host, startWebFunction(revision, folder, variables));
  }

  send(host: string, request: WebRequest): Promise<IncomingMessage> {
    const web = this.#byHost.get(host);
    if (web === undefined) throw new Error(`there is no endpoint ${host}`);
    return web.send(request);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#byHost.values()].map((web) => web.close()));
  }
}

/** Returns the interpreters that a runner finds on this machine. */
async function interpretersHere(): Promise<Target['interpreters']> {
  const runner = await startRunner();
  const { interpreters } = await runnerHealth({ baseUrl: runner.url }, 30_000);
  await runner.kill();
  return interpreters;
}

/** Returns the platform's functions. CDK's own functions for deployments have no names. */
const functionsOf = (assembly: Assembly): Deployed[] =>
  assembly.of('AWS::Lambda::Function').filter(({ properties }) => properties.FunctionName !== undefined);

/** Strips the names of the platform, the stage and the Region. */
const shortName = (physicalName: string): string =>
  physicalName.split('-').slice(2).join('-').replace(`-${TEST_REGION}`, '');

/** Returns the policies of the functions, and of the roles that EventBridge Scheduler assumes. */
function policiesByPrincipal(assembly: Assembly): Record<string, Statement[]> {
  const functions = functionsOf(assembly).map(({ properties: { FunctionName, Role } }) => {
    return [shortName(FunctionName), policiesOf(assembly, Role)];
  });
  const roles = assembly.of('AWS::IAM::Role').filter((role) => isTakenBy('scheduler.amazonaws.com', role));
  return Object.fromEntries([
    ...functions,
    ...roles.map(({ arn, properties: { RoleName } }) => [shortName(RoleName), policiesOf(assembly, arn)]),
  ]);
}

const isTakenBy = (service: string, { properties }: Deployed): boolean =>
  JSON.stringify(properties.AssumeRolePolicyDocument).includes(`"${service}"`);
const roleOf = (assembly: Assembly, roleArn: string): Deployed =>
  assembly.of('AWS::IAM::Role').find(({ arn }) => arn === roleArn)!;

/** Returns credentials by which the gate identifies the principal. */
const accountOf = (gate: AwsGate, principal: string): Record<string, string> => ({
  AWS_REGION: TEST_REGION,
  AWS_ACCESS_KEY_ID: accessKeyOf(principal),
  AWS_SECRET_ACCESS_KEY: AWS_TEST_ACCOUNT.credentials.secretAccessKey,
  AWS_ENDPOINT_URL: gate.url,
});

/** Actions for the functions' own logs and traces, which the rehearsal omits. */
const NOT_REHEARSED = /^(logs:(CreateLogStream|PutLogEvents)|xray:|ec2:)/;

const grantsOf = (policies: Readonly<Record<string, readonly Statement[]>>): string[] =>
  Object.entries(policies).flatMap(([principal, statements]) =>
    statements
      .filter(({ effect }) => effect === 'Allow')
      .flatMap(({ actions, resources }) =>
        actions
          .filter((action) => !NOT_REHEARSED.test(action))
          .flatMap((action) => resources.map((resource) => `${principal} ${action} ${resource}`)),
      ),
  );

/** Creates the templates' gateways to services. Returns whether there are any. */
async function createGateways(assembly: Assembly, { url }: FakeEcs): Promise<boolean> {
  const client = new ECSClient({ ...accountFor('deployment'), endpoint: url });
  const gateways = assembly.of('AWS::ECS::Gateway');
  for (const { properties } of gateways) {
    const { GatewayName: name, InfrastructureRoleArn: infrastructureRoleArn } = properties;
    const { Scheme: scheme } = properties.Configuration.HostSharedAlb;
    const configuration = { hostSharedAlb: { scheme } };
    const { DeletionProtection: deletionProtection } = properties;
    await client.send(new CreateGatewayCommand({ name, infrastructureRoleArn, configuration, deletionProtection }));
  }
  for (const { properties } of assembly.of('AWS::ECS::GatewayClusterAssociations')) {
    const { Gateway: gateway, Cluster: cluster } = properties;
    await client.send(new AssociateGatewayWithClusterCommand({ gateway, cluster }));
  }
  return gateways.length > 0;
}

/** Runs the clock of the service keeper while there are services. */
async function passServiceMinutes(isNeeded: () => boolean, tick: () => Promise<void>, signal: AbortSignal) {
  while (!signal.aborted) {
    await setTimeout(SERVICES_MINUTE_MS, undefined, { signal }).catch(() => {});
    if (isNeeded() && !signal.aborted) {
      await tick().catch((error) => process.stderr.write(`service-keeper: ${error}\n`));
    }
  }
}

/** Creates the emulators' resources in the order of the templates' dependencies. */
async function createData({ resources }: Assembly, { dynamoDb, moto }: AwsEndpoints): Promise<void> {
  const account = accountFor('deployment');
  const tables = new DynamoDBClient({ ...account, endpoint: dynamoDb });
  const s3 = new S3Client({ ...account, endpoint: moto, forcePathStyle: true });
  const kms = new KMSClient({ ...account, endpoint: moto });
  const sqs = new SQSClient({ ...account, endpoint: moto });
  const scheduler = new SchedulerClient({ ...account, endpoint: moto });
  const creators: Readonly<Record<string, (properties: Deployed['properties']) => Promise<unknown>>> = {
    'AWS::DynamoDB::GlobalTable': ({
      TableName,
      BillingMode,
      AttributeDefinitions,
      KeySchema,
      GlobalSecondaryIndexes,
      StreamSpecification,
    }) =>
      tables.send(
        new CreateTableCommand({
          ...{ TableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes },
          ...(StreamSpecification && { StreamSpecification: { StreamEnabled: true, ...StreamSpecification } }),
        }),
      ),
    'AWS::S3::Bucket': async ({ BucketName: Bucket }) => {
      const CreateBucketConfiguration = { LocationConstraint: TEST_REGION } as const;
      if (Bucket !== undefined) await s3.send(new CreateBucketCommand({ Bucket, CreateBucketConfiguration }));
    },
    'AWS::KMS::Alias': ({ AliasName }) => createKmsKey(kms, AliasName),
    'AWS::SQS::Queue': ({ QueueName, VisibilityTimeout, RedrivePolicy }) => {
      const Attributes = {
        ...(VisibilityTimeout !== undefined && { VisibilityTimeout: String(VisibilityTimeout) }),
        ...(RedrivePolicy !== undefined && { RedrivePolicy: JSON.stringify(RedrivePolicy) }),
      };
      return sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
    },
    'AWS::Scheduler::ScheduleGroup': ({ Name }) => scheduler.send(new CreateScheduleGroupCommand({ Name })),
  };
  for (const { type, properties } of resources) await creators[type]?.(properties);
}
