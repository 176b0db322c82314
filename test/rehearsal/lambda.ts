import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { makeCompileCache } from '#aws/compile-cache.ts';
import { TEST_REGION } from '#test/helpers/aws-account.ts';
import { unpackAsLambda } from '#test/helpers/compile-cache.ts';
import type { Assembly, Deployed } from './assembly.ts';
import { arnMatches } from './iam.ts';
import { FunctionError, type Invocation, LambdaEnvironment } from './lambda-environment.ts';

/** Lambda's limits on an event and on a buffered answer, synchronous and asynchronous. */
const MAX_PAYLOAD_BYTES = 6_291_556;
const MAX_ASYNC_BYTES = 1_048_576;
/** Number of retries of an asynchronous event, after 1 and 2 minutes; a function may set another. */
const ASYNC_RETRIES = 2;
/** Maximum number of concurrent process starts: more would all be slow on a small machine. */
const STARTS_AT_ONCE = 2;
/**
 * Above this number of a function's processes, another starts only after a wait, because calls may wait for one
 * another. A start takes 0.3 s of CPU time, and the first calls of a process take more than its later ones.
 */
const MANY = 6;
const STUCK_MS = 1000;
/** Interval at which the asynchronous queue retries a throttled function. */
const THROTTLED_MS = 100;

export interface Lambda {
  /**
   * Invokes a function in an idle or new environment, and calls `onBegin` once it has one. Throws Lambda's errors by
   * `.code`:
   * `RequestTooLargeException`, `ResourceNotFoundException`, `TooManyRequestsException`,
   * `InvalidParameterValueException`, or `FUNCTION_ERROR`.
   *
   * @param options.tenantId Required by functions with tenant isolation, and refused by others
   */
  invoke(
    functionName: string,
    event: unknown,
    onBegin?: () => void,
    options?: { readonly tenantId?: string },
  ): Promise<Invocation>;
  /** Invokes with `InvocationType: Event`: returns at once, retries failures, and queues throttled events. */
  invokeLater(functionName: string, event: unknown): void;
  /** Provisioned concurrency: starts this many environments of a function ahead. */
  warm(functionName: string, environments: number): Promise<void>;
  /** Replaces `$LATEST` of a function with the code of its assembly. */
  update(fn: Deployed, assembly: Assembly): void;
  /** Publishes `$LATEST` of a function as a version. */
  publish(version: Deployed, assembly: Assembly): void;
  unpublish(version: Deployed, assembly: Assembly): void;
  /** Returns whether the template permits a service to call a function on behalf of a resource. */
  allows(functionName: string, principal: string, sourceArn: string): boolean;
  /** Reserved concurrency by function; only 0 has an effect, which throttles the function. */
  readonly reserved: Map<string, number>;
  readonly invocations: readonly Invoked[];
  /** `<function>:<version>` of every failed invocation of a version. */
  readonly errors: readonly string[];
  /** Maximum CPU time of initialisation and maximum memory over a function's processes. */
  readonly needs: ReadonlyMap<string, { readonly initCpuMs: number; readonly peakMb: number }>;
  /** Kills the processes of a function that are at work, as a fault of their machine would. Returns their number. */
  kill(functionName: string): Promise<number>;
  /** Resolves when all functions are idle. */
  settled(): Promise<void>;
  /** Ends the idle processes, so that the next event of each function has a cold start. */
  endIdle(): Promise<void>;
  close(): Promise<void>;
}

export interface Invoked {
  readonly fn: string;
  /** Version number, if a version was called. */
  readonly version?: string | undefined;
  /** Time from the event to the end of all its work. */
  readonly ms: number;
  /** CPU time during {@link ms}. */
  readonly cpuMs: number;
  readonly memoryMb: number;
}

interface Pool {
  readonly idle: LambdaEnvironment[];
  readonly waiting: PromiseWithResolvers<LambdaEnvironment>[];
  /** Processes of {@link size} that are still starting. */
  starting: number;
  size: number;
  releasedAt: number;
}

class LambdaError extends Error {
  readonly code: string;
  /** Status of Lambda's response. */
  readonly status: number;
  constructor(code: string, message: string, status: number) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Locations of a function's code and compile cache; `''` means no cache. */
interface Place {
  readonly folder: string;
  readonly cache: string;
}

/**
 * Starts the functions of an assembly.
 *
 * @param variables Variables that Lambda adds to the template's own, such as credentials.
 * @param hasCache Whether a function gets the compile cache of its layer, which takes seconds to make.
 * @param imageCommand Command that starts the image of a function with these variables.
 */
export function startLambda(
  assembly: Assembly,
  runtime: string,
  variables: (fn: Deployed) => Readonly<Record<string, string>>,
  hasCache: (fn: Deployed) => boolean = () => false,
  imageCommand: (variables: Readonly<Record<string, string>>) => Promise<readonly string[]> = () => {
    throw new Error('this rehearsal starts no images');
  },
): Lambda {
  const functions = new Map<string, Deployed>();
  /** Stands for a function with tenant isolation, by function and tenant: no other tenant gets its environments. */
  const tenants = new Map<Deployed, Map<string, Deployed>>();
  /** By `<function>:<number>`. */
  const versions = new Map<string, Deployed>();
  const folders = new Map<Deployed, string>();
  const places = new Map<Deployed, Promise<Place>>();
  const layouts: string[] = [];
  const permissions = assembly.of('AWS::Lambda::Permission').map(({ properties }) => properties);
  const pools = new Map<Deployed, Pool>();
  const poolOf = (fn: Deployed): Pool => pools.get(fn)!;
  const addPool = (fn: Deployed) => pools.set(fn, { idle: [], waiting: [], starting: 0, size: 0, releasedAt: 0 });
  const ofTenant = (fn: Deployed, tenantId: string | undefined): Deployed => {
    if ((fn.properties.TenancyConfig !== undefined) !== (tenantId !== undefined)) {
      const message = 'the event names a tenant, or the function is isolated by tenants: one of them';
      throw new LambdaError('InvalidParameterValueException', message, 400);
    }
    if (tenantId === undefined) return fn;
    const known = tenants.get(fn) ?? new Map<string, Deployed>();
    tenants.set(fn, known);
    const own = known.get(tenantId) ?? { ...fn };
    if (!known.has(tenantId)) addPool(own);
    known.set(tenantId, own);
    return own;
  };
  const update: Lambda['update'] = (fn, { assetFolder }) => {
    functions.set(fn.properties.FunctionName, fn);
    if (pools.has(fn)) return;
    addPool(fn);
    // The CDK's own functions may have their code in the template.
    if (fn.properties.Code.S3Key !== undefined) folders.set(fn, assetFolder(fn.properties.Code.S3Key));
  };
  const nameOf = ({ id, properties }: Deployed, { versions: numbers }: Assembly): string =>
    `${properties.FunctionName}:${numbers.get(id)}`;
  const publish: Lambda['publish'] = (version, deployed) => {
    versions.set(nameOf(version, deployed), functions.get(version.properties.FunctionName)!);
  };
  for (const fn of assembly.of('AWS::Lambda::Function')) update(fn, assembly);
  for (const version of assembly.of('AWS::Lambda::Version')) publish(version, assembly);
  let startingNow = 0;
  const unblock = setInterval(() => startWaiting(), STUCK_MS);
  const all = new Set<LambdaEnvironment>();
  /** The function of each environment that handles an event. */
  const working = new Map<LambdaEnvironment, Deployed>();
  const invocations: Invoked[] = [];
  const needs = new Map<string, { initCpuMs: number; peakMb: number }>();
  const active = new Set<Promise<unknown>>();
  const reserved = new Map<string, number>();
  let isClosed = false;

  const errors: string[] = [];

  /** Returns `<function>` or `<function>:<version>` from a name or an ARN. */
  const shortNameOf = (name: string): string => name.split(':function:').at(-1)!;
  const versionIn = (name: string): string | undefined => shortNameOf(name).split(':')[1];
  const functionOf = (name: string): Deployed => {
    const fn = (versionIn(name) === undefined ? functions : versions).get(shortNameOf(name));
    if (fn === undefined) throw new LambdaError('ResourceNotFoundException', `there is no function ${name}`, 404);
    return fn;
  };
  /** Returns the locations of a function; Node would create a missing cache folder. */
  const placeOf = async (fn: Deployed): Promise<Place> => {
    const folder = folders.get(fn)!;
    const { NODE_COMPILE_CACHE: cache } = fn.properties.Environment?.Variables ?? {};
    if (cache === undefined || !hasCache(fn)) return { folder, cache: '' };
    const root = unpackAsLambda(folder, await makeCompileCache(folder, cache, console, { AWS_REGION: TEST_REGION }));
    layouts.push(root);
    return { folder: join(root, 'var/task'), cache: join(root, cache) };
  };
  const start = async (fn: Deployed): Promise<LambdaEnvironment> => {
    const { FunctionName, Handler, MemorySize, Environment, PackageType } = fn.properties;
    const isImage = PackageType === 'Image';
    const standard = {
      LANG: 'en_US.UTF-8',
      TZ: ':UTC',
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
    };
    if (isImage)
      return LambdaEnvironment.start({ command: imageCommand, folder: '/', variables: standard, isTree: true });
    const place = places.get(fn) ?? placeOf(fn);
    places.set(fn, place);
    const { folder, cache } = await place;
    return LambdaEnvironment.start({
      command: async () => [process.execPath, runtime],
      folder,
      variables: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        _HANDLER: Handler,
        LAMBDA_TASK_ROOT: folder,
        AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
        ...standard,
        NODE_COMPILE_CACHE: cache,
      },
    });
  };

  /**
   * Returns an idle environment, or starts one. A burst starts fewer processes at once than in Lambda, because this
   * machine has fewer processors: an event takes the first free one, and never waits for an event that does not end.
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

  async function run(name: string, event: string, onBegin = () => {}, tenantId?: string): Promise<Invocation> {
    const fn = ofTenant(functionOf(name), tenantId);
    const version = versionIn(name);
    const { FunctionName, Timeout, MemorySize: memoryMb } = fn.properties;
    if (isThrottled(fn)) throw new LambdaError('TooManyRequestsException', `${FunctionName} is throttled`, 429);
    const environment = await environmentFor(fn);
    working.set(environment, fn);
    onBegin();
    const startedAt = performance.now();
    const before = environment.used.cpuMs;
    const timeoutMs = Timeout * 1000;
    const answer = environment.invoke({ requestId: randomUUID(), functionArn: fn.arn, event, timeoutMs });
    const finished = environment.ended.then(() => {
      const ms = performance.now() - startedAt;
      invocations.push({ fn: FunctionName, version, ms, cpuMs: environment.used.cpuMs - before, memoryMb });
      note(fn, 0, environment);
      working.delete(environment);
      release(fn, environment);
    });
    track(finished);
    const onError = () => void (version !== undefined && errors.push(`${FunctionName}:${version}`));
    const invocation = await answer.catch((error) => {
      onError();
      throw error;
    });
    const payload = invocation.isStream ? invocation.payload : atMost(invocation.payload);
    return { ...invocation, payload: watched(payload, onError) };
  }
  const isThrottled = ({ properties }: Deployed): boolean => reserved.get(properties.FunctionName) === 0;
  const track = (work: Promise<unknown>): void => {
    const tracked = work.catch(() => {}).finally(() => active.delete(tracked));
    active.add(tracked);
  };

  async function runLater(name: string, event: string, triesLeft: number): Promise<void> {
    while (isThrottled(functionOf(name))) {
      if (isClosed) return;
      await setTimeout(THROTTLED_MS);
    }
    try {
      const { payload } = await run(name, event);
      await Array.fromAsync(payload);
    } catch (error) {
      if (triesLeft > 0 && !isClosed) return runLater(name, event, triesLeft - 1);
      process.stderr.write(`lambda: ${name} gave an event up: ${error}\n`);
    }
  }

  return {
    async invoke(name, event, onBegin, { tenantId } = {}) {
      const text = JSON.stringify(event);
      if (Buffer.byteLength(text) > MAX_PAYLOAD_BYTES) {
        throw new LambdaError('RequestTooLargeException', `an event of ${Buffer.byteLength(text)} bytes`, 413);
      }
      return run(name, text, onBegin, tenantId);
    },
    invokeLater(name, event) {
      const text = JSON.stringify(event);
      if (Buffer.byteLength(text) > MAX_ASYNC_BYTES) {
        throw new LambdaError(
          'RequestTooLargeException',
          `an asynchronous event of ${Buffer.byteLength(text)} bytes`,
          413,
        );
      }
      const fn = functionOf(name);
      const config = assembly
        .of('AWS::Lambda::EventInvokeConfig')
        .find(({ properties }) => properties.FunctionName === fn.properties.FunctionName);
      track(runLater(name, text, config?.properties.MaximumRetryAttempts ?? ASYNC_RETRIES));
    },
    async warm(name, wanted) {
      const fn = functionOf(name);
      const taken = await Promise.all(Array.from({ length: wanted }, () => environmentFor(fn)));
      for (const environment of taken) release(fn, environment);
    },
    update,
    publish,
    unpublish: (version, deployed) => void versions.delete(nameOf(version, deployed)),
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
    errors,
    needs,
    async kill(name) {
      const fn = functionOf(name);
      const own = [fn, ...(tenants.get(fn)?.values() ?? [])];
      const idle = own.flatMap((each) => poolOf(each).idle);
      const atWork = [...all].filter((each) => own.includes(working.get(each)!) && !idle.includes(each));
      await Promise.all(atWork.map((environment) => environment.stop()));
      return atWork.length;
    },
    async settled() {
      while (active.size > 0) await Promise.allSettled(active);
    },
    async endIdle() {
      const ended = [...pools.values()].flatMap((pool) => {
        pool.size -= pool.idle.length;
        return pool.idle.splice(0);
      });
      for (const environment of ended) all.delete(environment);
      await Promise.all(ended.map((environment) => environment.stop()));
    },
    async close() {
      isClosed = true;
      clearInterval(unblock);
      await Promise.all([...all].map((environment) => environment.stop()));
      for (const root of layouts) rmSync(root, { recursive: true });
    },
  };
}

async function* watched(payload: AsyncIterable<Uint8Array>, onError: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield* payload;
  } catch (error) {
    onError();
    throw error;
  }
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
