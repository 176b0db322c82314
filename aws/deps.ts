import { Logger } from '@aws-lambda-powertools/logger';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createMcpEndpoint } from '#adapters/mcp/endpoint.ts';
import { createToolSignIn } from '#adapters/mcp/tool-sign-in.ts';
import { batchesOf } from '#core/base/batches.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { CardKey } from '#core/ports/card-key.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { NoSandbox } from '#core/ports/no-sandbox.ts';
import { noOperatorKey, type OperatorKey } from '#core/ports/operator-key.ts';
import { lazyPayments, noPayments, type Payments } from '#core/ports/payments.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import { lazySignInProvider, type SignInProvider } from '#core/ports/sign-in-provider.ts';
import { endlessSpace } from '#core/ports/space.ts';
import { PROJECTIONS, type TableName } from '#core/ports/table-rules.ts';
import type { AwsConfig } from './config.ts';
import {
  LazyBlobLinks,
  LazyBlobs,
  LazySandbox,
  LazyServiceHost,
  LazyServiceLogs,
  LazyTimers,
  LazyUploadForms,
  LazyVault,
} from './lazy-ports.ts';
import { sourceStack } from './release/source-stack.ts';
import type { EventfulServiceHost } from './services/ecs-events.ts';
import { DynamoTable } from './tables/dynamo-table.ts';
import { mapThrottlingErrors } from './tables/throttles.ts';

/** Batch size of one event, far below Lambda's payload limit. */
const WAKE_BATCH = 1000;

/** Fields of a log line. */
export type LogFields = Readonly<Record<string, string>>;

/**
 * The parts of {@link Deps} on AWS, one function each: a Lambda function uses only the parts in its handlers' types,
 * and its bundle contains no other SDK client. The SDK reads Region, credentials and endpoints from its standard
 * variables.
 */
export interface HostDeps extends Pick<Deps, 'clock' | 'ids' | 'log' | 'background' | 'runSignals' | 'space'> {
  readonly outbound: HttpOutbound;
  readonly exchanges: HttpOutbound;
  readonly config: AwsConfig;
  /** The logger behind `log`, for the middleware of Lambda entries. */
  readonly logger: Logger;
  /** Waits for all background work: Lambda freezes a process after its response. */
  settled(): Promise<void>;
}

/**
 * Parts of every function. They need no SDK client.
 *
 * @param fieldsOfRequest Fields of every log line, for a process that serves many requests at once. @default - none
 */
export function hostParts(config: AwsConfig, fieldsOfRequest: () => LogFields | undefined = () => undefined): HostDeps {
  const logger = new Logger({ logLevel: config.logLevel });
  const clock = new SystemClock();
  const pending = new Set<Promise<void>>();
  const outbound = new HttpOutbound({ clock, ownHosts: config.outboundHosts });
  return {
    config,
    clock,
    ids: new SystemIds(config.cell),
    runSignals: new ProcessRunSignals(),
    space: endlessSpace,
    outbound,
    exchanges: outbound,
    logger,
    log: {
      debug: (message, fields = {}) => logger.debug(message, { ...fieldsOfRequest(), ...fields }),
      info: (message, fields = {}) => logger.info(message, { ...fieldsOfRequest(), ...fields }),
      warn: (message, fields = {}) => logger.warn(message, { ...fieldsOfRequest(), ...fields }),
      error: (message, { stack, ...fields } = {}) =>
        logger.error(message, {
          ...fieldsOfRequest(),
          ...fields,
          ...(typeof stack === 'string' && { stack: sourceStack(stack) }),
        }),
    },
    background(work) {
      pending.add(work);
      return work.finally(() => pending.delete(work));
    },
    async settled() {
      while (pending.size > 0) await Promise.allSettled(pending);
    },
  };
}

export function tableParts({ config, clock }: HostDeps): Pick<Deps, 'main' | 'runs' | 'counters'> {
  const client = mapThrottlingErrors(new DynamoDBClient());
  const table = (name: TableName) => new DynamoTable(client, config.tablePrefix + name, clock, PROJECTIONS[name]);
  return { main: table('main'), runs: table('runs'), counters: table('counters') };
}

export const blobParts = ({ config }: HostDeps): Pick<Deps, 'blobs'> => ({
  blobs: new LazyBlobs(async () => {
    const { createS3Blobs } = await import('./blobs/s3-blobs.ts');
    return createS3Blobs(config.bucket);
  }),
});

export const blobLinkParts = ({ config }: HostDeps): Pick<AllDeps, 'blobLinks'> => ({
  blobLinks: new LazyBlobLinks(async () => {
    const { createS3Links } = await import('./blobs/s3-links.ts');
    return createS3Links(config.bucket);
  }),
});

/** Installations have a separate function, because the upload's function ends with its response. */
export const installParts = ({ config }: HostDeps): Pick<Deps, 'startInstall'> => ({
  startInstall: (job) => invokeLater(config, 'install', job),
});

/** Durable runs continue in a separate function, which has more time than a call. */
export const handOverParts = (host: HostDeps, afterMs?: number): Required<Pick<Deps, 'handOver' | 'wakeRun'>> => ({
  handOver: { afterMs, startRun: (job) => invokeLater(host.config, 'loop-worker', job) },
  ...wakeRunParts(host),
});

/** Invokes the function that continues a run that waited; on failure the run is taken up with the next minute. */
export const wakeRunParts = ({ config, log }: HostDeps): Required<Pick<Deps, 'wakeRun'>> => ({
  wakeRun: (job) =>
    invokeLater(config, 'loop-worker', job).catch((error: unknown) => {
      log.warn('run not woken until the next minute', { run_id: job.runId, error: String(error) });
    }),
});

/** Loaded on demand: few runs ask people. */
export const questionParts = (deps: HostDeps & Pick<Deps, 'main'>): Required<Pick<Deps, 'showQuestion'>> => ({
  async showQuestion(question) {
    const { questionListener } = await import('./questions.ts');
    await questionListener(deps)(question);
  },
});

/** Loaded on demand: few runs are tasks. */
export const taskPushParts = (
  deps: HostDeps & Pick<Deps, 'main' | 'runs' | 'blobs' | 'vault'>,
): Required<Pick<Deps, 'pushTask'>> => ({
  async pushTask(news) {
    const { taskPusher } = await import('#core/wires/a2a/pushes.ts');
    return taskPusher(deps)(news);
  },
});

/** Only one function may order services. This invokes it; on failure it runs with its next minute. */
export const wakeParts = ({ config, log }: HostDeps): Required<Pick<Deps, 'wakeServices'>> => ({
  async wakeServices(serviceIds) {
    try {
      for (const batch of batchesOf(serviceIds, WAKE_BATCH)) {
        await invokeLater(config, 'service-keeper', { service_ids: batch });
      }
    } catch (error) {
      log.warn('services not woken until the next minute', { error: String(error) });
    }
  },
});

/** Containers of tenants call the function that asks, so the keeper reads their secrets in its place. */
export const bootParts = ({ config }: HostDeps): Required<Pick<AllDeps, 'askForBoot'>> => ({
  async askForBoot(serviceId, token) {
    const { askKeeper } = await import('./services/ask-keeper.ts');
    return askKeeper(`${config.functionPrefix}service-keeper`, { boot: { service_id: serviceId, token } });
  },
});

/** Parts for requests about services, if the stage has services. */
export const serviceLogParts = (deps: HostDeps): Pick<AllDeps, 'serviceLogs' | 'wakeServices'> => {
  const place = deps.config.serviceLogs;
  if (place === undefined) return {};
  const serviceLogs = new LazyServiceLogs(async () => {
    const { createCloudWatchLogs } = await import('./services/logs.ts');
    return createCloudWatchLogs(place, deps.clock);
  });
  return { serviceLogs, ...wakeParts(deps) };
};

/** Parts of the function that orders services. Throws if the stage has no services, and so no such function. */
export const serviceHostParts = ({ config, clock, log }: HostDeps): { readonly serviceHost: EventfulServiceHost } => {
  const settings = config.services;
  if (settings === undefined) throw new Error('PLATFORM_SERVICES is not set, so there is nothing to keep services on.');
  return {
    serviceHost: new LazyServiceHost(async () => {
      const { createEcsServiceHost } = await import('./services/create-ecs-service-host.ts');
      return createEcsServiceHost(settings, { clock, log });
    }),
  };
};

/** Returns the sandboxes that the stage has chosen. */
export const sandboxParts = (deps: HostDeps & Pick<Deps, 'blobs' | 'counters'>): Pick<Deps, 'sandbox'> => ({
  sandbox: new LazySandbox(async () => {
    const { programMemoryMb } = deps.config;
    const sandbox = await hostedSandbox(deps);
    if (programMemoryMb === undefined) return sandbox;
    const { createChosenSandbox } = await import('./lambda-sandbox/choice.ts');
    return createChosenSandbox(deps, { others: sandbox, memoryMb: programMemoryMb });
  }),
});

async function hostedSandbox(deps: HostDeps & Pick<Deps, 'blobs' | 'counters'>): Promise<Sandbox> {
  if (deps.config.hostedSandbox === 'fargate') {
    const { createFargateSandbox } = await import('./fargate/sandbox.ts');
    return createFargateSandbox(deps);
  }
  if (deps.config.hostedSandbox === 'microvm') {
    const { createMicrovmSandbox } = await import('./microvm/sandbox.ts');
    return createMicrovmSandbox(deps);
  }
  return new NoSandbox(
    'This deployment runs no programs: its stage file says so. Set `sandbox` there (docs/sandbox.md), and deploy again.',
  );
}

export const timerParts = ({ config }: HostDeps): Pick<AllDeps, 'timers'> => ({
  timers: new LazyTimers(async () => {
    const { createEventBridgeTimers } = await import('./timers/eventbridge-timers.ts');
    return createEventBridgeTimers({
      group: config.timerGroup,
      queueArn: config.timerQueueArn,
      deadQueueArn: config.timerDeadQueueArn,
      roleArn: config.timerRoleArn,
    });
  }),
});

export const mcpParts = ({ log }: HostDeps): Pick<AllDeps, 'mcp'> => ({ mcp: createMcpEndpoint({ log }) });

export const uploadFormParts = ({ config, clock }: HostDeps): Pick<Deps, 'uploadForms'> => ({
  uploadForms: new LazyUploadForms(async () => {
    const { createS3UploadForms } = await import('./blobs/s3-blobs.ts');
    return createS3UploadForms(config.bucket, clock);
  }),
});

export const vaultParts = ({
  config,
  clock,
  ids,
  main,
  counters,
}: HostDeps & Pick<Deps, 'main' | 'counters'>): Pick<Deps, 'vault'> => ({
  vault: new LazyVault(async () => {
    const { secrets, secretPrefix: prefix, secretKey: key, dataKey } = config;
    if (secrets === 'envelope') {
      const { createEnvelopeVault } = await import('./secrets/envelope-vault.ts');
      return createEnvelopeVault({ prefix, dataKey, main, clock });
    }
    const props = { prefix, key, dataKey, locks: counters, clock, ids };
    if (secrets === 'both') {
      const { createMovingVault } = await import('./secrets/moving-vault.ts');
      return createMovingVault({ ...props, main });
    }
    const { createVault } = await import('./secrets/secrets-manager-vault.ts');
    return createVault(props);
  }),
});

export const toolSignInParts = ({ outbound }: HostDeps): Pick<Deps, 'toolSignIn'> => ({
  toolSignIn: createToolSignIn({ outbound }),
});

export const paymentParts = ({ config, clock }: HostDeps): Pick<AllDeps, 'payments'> => {
  const { stripeSecret: secretName, stripeUrl: url } = config;
  if (secretName === undefined) return { payments: noPayments };
  let stripe: Promise<() => Promise<Payments>> | undefined;
  return {
    payments: lazyPayments(async () => {
      stripe ??= import('./secrets/stripe.ts').then(({ stripeOnAws }) => stripeOnAws({ secretName, url, clock }));
      return (await stripe)();
    }),
  };
};

export function operatorParts({ config, clock }: HostDeps): Pick<AllDeps, 'operatorKey'> {
  const { operatorSecret: secretName } = config;
  if (secretName === undefined) return { operatorKey: noOperatorKey };
  // Loaded on demand: few requests need it.
  let key: Promise<OperatorKey> | undefined;
  return {
    async operatorKey() {
      key ??= import('./secrets/operator-key.ts').then(({ operatorKeyOnAws }) =>
        operatorKeyOnAws({ secretName, clock }),
      );
      return (await key)();
    },
  };
}

export function cardKeyParts({ config, clock }: HostDeps): Pick<AllDeps, 'cardKey'> {
  const { cardKeySecret: secretName } = config;
  if (secretName === undefined) return {};
  // Loaded on demand: few requests need it.
  let key: Promise<CardKey> | undefined;
  return {
    async cardKey() {
      key ??= import('./secrets/card-key.ts').then(({ cardKeyOnAws }) => cardKeyOnAws({ secretName, clock }));
      return (await key)();
    },
  };
}

export function signInParts({ config, clock, outbound }: HostDeps): Pick<AllDeps, 'signInProvider'> {
  const { oidcSecret: secretName, oidcIssuer: issuer, oidcClientId: clientId } = config;
  if (secretName === undefined || issuer === undefined || clientId === undefined) return {};
  let provider: Promise<() => Promise<SignInProvider>> | undefined;
  return {
    signInProvider: lazySignInProvider(async () => {
      provider ??= import('./secrets/oidc.ts').then(({ oidcOnAws }) =>
        oidcOnAws({ issuer, clientId, secretName, clock, outbound }),
      );
      return (await provider)();
    }),
  };
}

export const mailParts = ({ config }: HostDeps): Pick<Deps, 'mail'> => ({
  mail: {
    async send(message) {
      if (config.mailFrom === undefined) return false;
      // Loaded on demand: few requests need it.
      const { createSesMail } = await import('./ses-mail.ts');
      return createSesMail(config.mailFrom).send(message);
    },
  },
});

/** Resolves once Lambda has accepted the event. */
async function invokeLater(
  config: AwsConfig,
  fn: 'install' | 'loop-worker' | 'service-keeper',
  event: object,
): Promise<void> {
  // Loaded on demand: few requests need it, and no call.
  const { InvokeCommand, LambdaClient } = await import('@aws-sdk/client-lambda');
  await mapThrottlingErrors(new LambdaClient()).send(
    new InvokeCommand({
      FunctionName: config.functionPrefix + fn,
      InvocationType: 'Event',
      Payload: Buffer.from(JSON.stringify(event)),
    }),
  );
}
