import * as z from 'zod';
import { type AwsRequest, createAwsSigner } from '#adapters/llm/aws-signer.ts';
import type { Clock } from '#core/ports/clock.ts';

const POLL_MS = 5000;
/** API Gateway's control plane allows only a few requests a second per account. */
const TRIES = 6;
const RETRY_MS = 2000;

const releaseSchema = z.object({
  /** Endpoints of both services in the stage's Region. */
  ApiGatewayUrl: z.url(),
  CloudWatchUrl: z.url(),
  Region: z.string(),
  RestApiId: z.string(),
  StageName: z.string(),
  /** Target state of the stage: a deployment of the API, and the variables that name each function's version. */
  DeploymentId: z.string(),
  Variables: z.record(z.string(), z.string()),
  /** Percentage of requests in the canary. CloudFormation passes numbers as texts. */
  Percent: z.coerce.number(),
  Seconds: z.coerce.number(),
  /** Names of the alarms that roll the release back. */
  Alarms: z.array(z.string()),
});

/** Parses the properties of the custom resource. Throws a `ZodError` if they are invalid. */
export const parseRelease = (properties: unknown): Release => releaseSchema.parse(properties);
export type Release = z.output<typeof releaseSchema>;

/** Relevant part of API Gateway's description of a stage. */
interface ApiStage {
  readonly deploymentId: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly canarySettings?: { readonly deploymentId?: string; readonly percentTraffic?: number };
}

/**
 * Runs a canary release of an API's stage while it watches the alarms. Resolves if none has fired: then the stage may
 * be updated. Throws if one has, or if the canary was ended by another process. In either case the canary is removed
 * and the stage serves only the previous deployment.
 *
 * No-op if the stage does not exist yet or serves the deployment already, and for a rollback to older versions, which
 * must not wait.
 */
export async function tryRelease(release: Release, clock: Clock): Promise<void> {
  const ask = asking(release, clock);
  const current = await ask.stage();
  if (current === undefined) return;
  // Canary of a cancelled deployment.
  if (current.canarySettings) await ask.endCanary();
  if (isServed(release, current) || isOlder(release, current)) return;
  await ask.reset(release.Alarms);
  await ask.beginCanary(current);
  try {
    const end = clock.now() + release.Seconds * 1000;
    while (clock.now() < end) {
      await clock.sleep(Math.min(POLL_MS, Math.max(0, end - clock.now())));
      const fired = await ask.fired(release.Alarms);
      if (fired.length > 0) throw new Error(`rolled back by ${fired.join(', ')}: see the log of the functions`);
      const { canarySettings } = (await ask.stage()) ?? {};
      if (canarySettings?.percentTraffic !== release.Percent)
        throw new Error('rolled back: the canary was ended by another process');
    }
  } finally {
    // CloudFormation cannot update a stage that has a canary.
    if ((await ask.stage())?.canarySettings) await ask.endCanary();
  }
}

const isServed = ({ DeploymentId, Variables }: Release, { deploymentId, variables = {} }: ApiStage): boolean =>
  deploymentId === DeploymentId && Object.entries(Variables).every(([name, value]) => variables[name] === value);

/** Lambda numbers versions in ascending order and never reuses a number. An alias ends with the number, too. */
const isOlder = ({ Variables }: Release, { variables = {} }: ApiStage): boolean =>
  Object.entries(Variables).some(([name, value]) => name in variables && numberOf(value) < numberOf(variables[name]!));
const numberOf = (version: string): number => Number(/(?<!\d)\d+$/.exec(version)?.[0]);

/** Requests to API Gateway and CloudWatch. */
function asking({ ApiGatewayUrl, CloudWatchUrl, Region, ...release }: Release, clock: Clock) {
  const send = {
    apigateway: sender('apigateway', Region, clock),
    monitoring: sender('monitoring', Region, clock),
  };
  const url = new URL(`/restapis/${release.RestApiId}/stages/${release.StageName}`, ApiGatewayUrl);
  const json = { accept: 'application/json', 'content-type': 'application/json' };
  const patch = (patchOperations: object[]) =>
    send.apigateway({ method: 'PATCH', url, headers: json, body: JSON.stringify({ patchOperations }) });
  const cloudWatch = async (action: string, input: object) => {
    const headers = {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `GraniteServiceVersion20100801.${action}`,
    };
    return send.monitoring({ url: new URL(CloudWatchUrl), headers, body: JSON.stringify(input) });
  };
  return {
    stage: async () => (await send.apigateway({ method: 'GET', url, headers: json })) as ApiStage | undefined,
    async beginCanary({ variables = {} }: ApiStage): Promise<void> {
      const changed = Object.entries(release.Variables).filter(([name, value]) => variables[name] !== value);
      const settings = [
        ['deploymentId', release.DeploymentId],
        ...changed.map(([name, value]) => [`stageVariableOverrides/${name}`, value]),
        ['useStageCache', 'false'],
        ['percentTraffic', String(release.Percent)],
      ];
      await patch(settings.map(([name, value]) => ({ op: 'replace', path: `/canarySettings/${name}`, value })));
    },
    endCanary: () => patch([{ op: 'remove', path: '/canarySettings' }]),
    /** An alarm may still be firing because of a recent rollback. */
    async reset(names: readonly string[]): Promise<void> {
      for (const AlarmName of names) {
        await cloudWatch('SetAlarmState', { AlarmName, StateValue: 'OK', StateReason: 'a new release begins' });
      }
    },
    async fired(AlarmNames: readonly string[]): Promise<string[]> {
      const { MetricAlarms = [] } = (await cloudWatch('DescribeAlarms', { AlarmNames, StateValue: 'ALARM' })) as {
        MetricAlarms?: { AlarmName: string }[];
      };
      return MetricAlarms.map(({ AlarmName }) => AlarmName);
    },
  };
}

/**
 * Returns a function that sends requests to one service, with retries when it throttles or fails. It resolves to the
 * JSON response, or to undefined if the resource does not exist, and throws other errors.
 */
function sender(service: string, region: string, clock: Clock): (request: AwsRequest) => Promise<unknown> {
  const sign = createAwsSigner(service, region);
  return async (request) => {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await fetch(request.url, {
        method: request.method ?? 'POST',
        headers: await sign(request),
        body: request.body,
      });
      const text = await answer.text();
      if (answer.ok) return text === '' ? {} : JSON.parse(text);
      if (answer.status === 404) return undefined;
      const isPassing = answer.status === 429 || answer.status >= 500 || /Throttling|TooManyRequests/.test(text);
      if (!isPassing || attempt === TRIES) throw new Error(`${service} answered ${answer.status}: ${text}`);
      await clock.sleep(RETRY_MS);
    }
  };
}
