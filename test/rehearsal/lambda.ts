import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { TEST_REGION } from '#test/helpers/aws-account.ts';
import type { Assembly, Deployed } from './assembly.ts';
import { arnMatches } from './iam.ts';
import { FunctionError, type Invocation, LambdaEnvironment } from './lambda-environment.ts';

/** Lambda's limits on an event and on a buffered answer, synchronous and asynchronous. */
const MAX_PAYLOAD_BYTES = 6_291_556;
const MAX_ASYNC_BYTES = 1_048_576;
/** Lambda tries an asynchronous event again twice, after 1 and 2 minutes, unless the function says otherwise. */
const ASYNC_RETRIES = 2;
/** Maximum of processes that start concurrently: more would all be slow on a small machine. */
const STARTS_AT_ONCE = 2;
/** Past so many of a function, one more is started only when none has become free for a while: calls may wait for one another. */
const MANY = 12;
const STUCK_MS = 2000;
/** How often the queue of asynchronous events tries a function that is throttled. */
const THROTTLED_MS = 100;

export interface Lambda {
  /**
   * Calls a function, in an environment that is idle or in a new one, and `onBegin` when it has one. Throws what Lambda would answer: `.code`
   * `RequestTooLargeException`, `ResourceNotFoundException`, `TooManyRequestsException`, or `FUNCTION_ERROR`.
   */
  invoke(functionName: string, event: unknown, onBegin?: () => void): Promise<Invocation>;
  /** Invokes as `InvocationType: Event`: returns at once, retries failures, and keeps what is throttled until it is not. */
  invokeLater(functionName: string, event: unknown): void;
  /** Provisioned concurrency: starts this many environments of a function ahead. */
  warm(functionName: string, environments: number): Promise<void>;
  /** Whether a permission of the template lets a service call a function on behalf of a resource. */
  allows(functionName: string, principal: string, sourceArn: string): boolean;
  /** Reserved concurrency by function; only 0 has an effect: the function is throttled. */
  readonly reserved: Map<string, number>;
  readonly invocations: readonly Invoked[];
  /** Maximum CPU time of initialisation and maximum memory over a function's processes. */
  readonly needs: ReadonlyMap<string, { readonly initCpuMs: number; readonly peakMb: number }>;
  /** Resolves when all functions are idle. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

export interface Invoked {
  readonly fn: string;
  /** From the event to the end of all work for it. */
  readonly ms: number;
  /** CPU time within it. */
  readonly cpuMs: number;
  readonly memoryMb: number;
}

interface Pool {
  readonly idle: LambdaEnvironment[];
  readonly waiting: PromiseWithResolvers<LambdaEnvironment>[];
  /** The part of {@link size} that is still starting. */
  starting: number;
  size: number;
  releasedAt: number;
}

class LambdaError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The functions of an assembly; `variables` are those that Lambda adds to a template's own, such as credentials. */
export function startLambda(
  assembly: Assembly,
  runtime: string,
  variables: (fn: Deployed) => Readonly<Record<string, string>>,
): Lambda {
  const functions = new Map(assembly.of('AWS::Lambda::Function').map((fn) => [fn.properties.FunctionName, fn]));
  const permissions = assembly.of('AWS::Lambda::Permission').map(({ properties }) => properties);
  const pools = new Map<Deployed, Pool>();
  const poolOf = (fn: Deployed): Pool => pools.get(fn)!;
  for (const fn of functions.values()) pools.set(fn, { idle: [], waiting: [], starting: 0, size: 0, releasedAt: 0 });
  let startingNow = 0;
  const unblock = setInterval(() => startWaiting(), STUCK_MS);
  const all = new Set<LambdaEnvironment>();
  const invocations: Invoked[] = [];
  const needs = new Map<string, { initCpuMs: number; peakMb: number }>();
  const active = new Set<Promise<unknown>>();
  const reserved = new Map<string, number>();
  let isClosed = false;

  const functionOf = (name: string): Deployed => {
    const fn = functions.get(name.split(':').at(-1)!);
    if (fn === undefined) throw new LambdaError('ResourceNotFoundException', `there is no function ${name}`);
    return fn;
  };
  const start = (fn: Deployed): Promise<LambdaEnvironment> => {
    const { FunctionName, Handler, Code, MemorySize, Environment } = fn.properties;
    const folder = assembly.assetFolder(Code.S3Key);
    return LambdaEnvironment.start({
      runtime,
      folder,
      variables: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        LANG: 'en_US.UTF-8',
        TZ: ':UTC',
        _HANDLER: Handler,
        LAMBDA_TASK_ROOT: folder,
        AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
        AWS_REGION: TEST_REGION,
        AWS_DEFAULT_REGION: TEST_REGION,
        AWS_LAMBDA_FUNCTION_NAME: FunctionName,
        AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(MemorySize),
        AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${FunctionName}`,
        AWS_LAMBDA_LOG_STREAM_NAME: '2026/01/01/[$LATEST]rehearsal',
        AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
        ...variables(fn),
        ...Environment?.Variables,
      },
    });
  };

  /**
   * An idle environment, or a new one. A burst does not start all the processes at once that it would in Lambda, which has
   * more processors: an event takes the first free one, and no event waits for one that does not end.
   */
  function environmentFor(fn: Deployed): Promise<LambdaEnvironment> {
    const pool = poolOf(fn);
    const idle = pool.idle.pop();
    if (idle !== undefined) return Promise.resolve(idle);
    const waiter = Promise.withResolvers<LambdaEnvironment>();
    pool.waiting.push(waiter);
    startWaiting();
    return waiter.promise;
  }

  function startWaiting(): void {
    for (const [fn, pool] of pools) {
      const isStuck = performance.now() - pool.releasedAt > STUCK_MS;
      while (
        pool.waiting.length > pool.starting &&
        startingNow < STARTS_AT_ONCE &&
        (pool.size < MANY || (isStuck && pool.starting === 0))
      ) {
        add(fn);
      }
    }
  }

  function add(fn: Deployed): void {
    const pool = poolOf(fn);
    pool.starting += 1;
    pool.size += 1;
    startingNow += 1;
    const started = start(fn)
      .then(
        (environment) => {
          all.add(environment);
          note(fn, environment.used.cpuMs, environment);
          release(fn, environment);
        },
        (error) => {
          pool.size -= 1;
          pool.waiting.shift()?.reject(error);
        },
      )
      .finally(() => {
        pool.starting -= 1;
        startingNow -= 1;
        startWaiting();
      });
    track(started);
  }

  function note(fn: Deployed, initCpuMs: number, { used }: LambdaEnvironment): void {
    const before = needs.get(fn.properties.FunctionName) ?? { initCpuMs: 0, peakMb: 0 };
    needs.set(fn.properties.FunctionName, {
      initCpuMs: Math.max(before.initCpuMs, initCpuMs),
      peakMb: Math.max(before.peakMb, used.peakMb),
    });
  }

  function release(fn: Deployed, environment: LambdaEnvironment): void {
    const pool = poolOf(fn);
    pool.releasedAt = performance.now();
    if (isClosed) track(environment.stop());
    else if (environment.isDead) {
      all.delete(environment);
      pool.size -= 1;
      startWaiting();
    } else if (pool.waiting.length > 0) pool.waiting.shift()!.resolve(environment);
    else pool.idle.push(environment);
  }

  async function run(fn: Deployed, event: string, onBegin = () => {}): Promise<Invocation> {
    const { FunctionName, Timeout, MemorySize: memoryMb } = fn.properties;
    if (isThrottled(fn)) throw new LambdaError('TooManyRequestsException', `${FunctionName} is throttled`);
    const environment = await environmentFor(fn);
    onBegin();
    const startedAt = performance.now();
    const before = environment.used.cpuMs;
    const timeoutMs = Timeout * 1000;
    const answer = environment.invoke({ requestId: randomUUID(), functionArn: fn.arn, event, timeoutMs });
    const finished = environment.ended.then(() => {
      const ms = performance.now() - startedAt;
      invocations.push({ fn: FunctionName, ms, cpuMs: environment.used.cpuMs - before, memoryMb });
      note(fn, 0, environment);
      release(fn, environment);
    });
    track(finished);
    const invocation = await answer;
    return invocation.isStream ? invocation : { ...invocation, payload: atMost(invocation.payload) };
  }
  const isThrottled = ({ properties }: Deployed): boolean => reserved.get(properties.FunctionName) === 0;
  const track = (work: Promise<unknown>): void => {
    const tracked = work.catch(() => {}).finally(() => active.delete(tracked));
    active.add(tracked);
  };

  async function runLater(fn: Deployed, event: string, triesLeft: number): Promise<void> {
    while (isThrottled(fn)) {
      if (isClosed) return;
      await setTimeout(THROTTLED_MS);
    }
    try {
      const { payload } = await run(fn, event);
      await Array.fromAsync(payload);
    } catch (error) {
      if (triesLeft > 0 && !isClosed) return runLater(fn, event, triesLeft - 1);
      process.stderr.write(`lambda: ${fn.properties.FunctionName} gave an event up: ${error}\n`);
    }
  }

  return {
    async invoke(name, event, onBegin) {
      const text = JSON.stringify(event);
      if (Buffer.byteLength(text) > MAX_PAYLOAD_BYTES) {
        throw new LambdaError('RequestTooLargeException', `an event of ${Buffer.byteLength(text)} bytes`);
      }
      return run(functionOf(name), text, onBegin);
    },
    invokeLater(name, event) {
      const text = JSON.stringify(event);
      if (Buffer.byteLength(text) > MAX_ASYNC_BYTES) {
        throw new LambdaError('RequestTooLargeException', `an asynchronous event of ${Buffer.byteLength(text)} bytes`);
      }
      const fn = functionOf(name);
      const config = assembly
        .of('AWS::Lambda::EventInvokeConfig')
        .find(({ properties }) => properties.FunctionName === fn.properties.FunctionName);
      track(runLater(fn, text, config?.properties.MaximumRetryAttempts ?? ASYNC_RETRIES));
    },
    async warm(name, wanted) {
      const fn = functionOf(name);
      const taken = await Promise.all(Array.from({ length: wanted }, () => environmentFor(fn)));
      for (const environment of taken) release(fn, environment);
    },
    allows(name, principal, sourceArn) {
      const fn = functionOf(name);
      return permissions.some(
        ({ Action, FunctionName, Principal, SourceArn }) =>
          ['lambda:InvokeFunction', 'lambda:*'].includes(Action) &&
          [fn.arn, fn.properties.FunctionName].includes(FunctionName) &&
          Principal === principal &&
          (SourceArn === undefined || arnMatches(SourceArn, sourceArn)),
      );
    },
    reserved,
    invocations,
    needs,
    async settled() {
      while (active.size > 0) await Promise.allSettled(active);
    },
    async close() {
      isClosed = true;
      clearInterval(unblock);
      await Promise.all([...all].map((environment) => environment.stop()));
    },
  };
}

/** Passes a buffered answer on if it fits Lambda's limit. */
async function* atMost(payload: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of payload) {
    bytes += chunk.length;
    if (bytes > MAX_PAYLOAD_BYTES) throw new FunctionError('Function.ResponseSizeTooLarge');
    yield chunk;
  }
}
