import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import * as z from 'zod';
import { builtRunner } from './runner.ts';

const HOOKS = '/aws/lambda-microvms/runtime/v1';
const API = '/2025-09-09/microvms';

export interface FakeVm {
  readonly id: string;
  readonly imageArn: string;
  state: 'PENDING' | 'RUNNING' | 'TERMINATED';
  readonly startedAt: number;
  /** URL of the VM's proxy. */
  readonly url: string;
  readonly maximumDurationInSeconds: number;
  /** Request that started the VM. */
  readonly request: z.output<typeof runRequest>;
  /** Resolves when all processes of the VM have ended. */
  readonly ended: Promise<void>;
}

export interface FakeMicrovms {
  /** URL of the API, without a slash at the end. */
  readonly url: string;
  /** All VMs ever started, oldest first. */
  readonly vms: readonly FakeVm[];
  /** Requested operations, such as `RunMicrovm`. */
  readonly asked: readonly string[];
  /** Queues errors for the next requests of these operations, each used once. */
  failNext(operation: string, ...errors: string[]): void;
  /** Ends the runners of the next `count` VMs immediately. */
  breakNext(count: number): void;
  /** Ends a VM without an event, as AWS does when a host fails. */
  kill(vm: FakeVm): Promise<void>;
  close(): Promise<void>;
}

const imageArn = z.string().regex(/^arn:[\w-]+:lambda:[\w-]+:(\d{12}|aws):microvm-image:[\w-]{1,64}$/);
const connectors = z
  .array(z.string().regex(/^arn:[\w-]+:lambda:[\w-]+:(\d{12}|aws):network-connector:[\w:-]+$/))
  .optional();
const runRequest = z.strictObject({
  imageIdentifier: imageArn,
  imageVersion: z.string().optional(),
  ingressNetworkConnectors: connectors,
  egressNetworkConnectors: connectors,
  executionRoleArn: z.string().optional(),
  idlePolicy: z.object().optional(),
  logging: z
    .union([z.strictObject({ disabled: z.strictObject({}) }), z.strictObject({ cloudWatch: z.object() })])
    .optional(),
  runHookPayload: z.string().max(16_384).optional(),
  maximumDurationInSeconds: z.int().min(1).max(28_800).default(28_800),
  clientToken: z.string().min(1).max(64).optional(),
});
const tokenRequest = z.strictObject({
  expirationInMinutes: z.int().min(1).max(60),
  allowedPorts: z.array(z.strictObject({ port: z.int().min(1).max(65_535) })).min(1),
});

const OPERATIONS: Readonly<Record<string, string>> = {
  POST: 'RunMicrovm',
  GET: 'ListMicrovms',
  'GET id': 'GetMicrovm',
  'DELETE id': 'TerminateMicrovm',
  'POST id auth-token': 'CreateMicrovmAuthToken',
};

/**
 * Maximum number of VMs that start at the same time. AWS limits the launch rate as well; here the limit also keeps each
 * start within its callers' timeout, because the VMs share this machine's processors.
 */
const MAX_STARTING = 4;

/** HTTP status of each error in the service's model. */
const STATUS: Readonly<Record<string, number>> = {
  ValidationException: 400,
  AccessDeniedException: 403,
  ResourceNotFoundException: 404,
  ServiceQuotaExceededException: 402,
  ThrottlingException: 429,
  InternalServerException: 500,
  InsufficientCapacityException: 503,
};

class Refusal extends Error {
  readonly type: string;
  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

/**
 * Fakes Lambda MicroVMs on the SDK's wire protocol (restJson1). VMs are local processes with the real runner, called
 * through its hooks as Lambda does and reached through a proxy that requires a token. The fake refuses requests that
 * are invalid by the service's model. `now` is the time for tokens and `startedAt`.
 */
export async function startFakeMicrovms(now: () => number = Date.now): Promise<FakeMicrovms> {
  const vms: Vm[] = [];
  const asked: string[] = [];
  const failures = new Map<string, string[]>();
  const program = join(await builtRunner(), 'runner/main.mjs');
  const ahead = [new Snapshot(program), new Snapshot(program)];
  let broken = 0;

  const operations: Readonly<Record<string, (id: string, request: IncomingMessage) => Promise<object>>> = {
    async RunMicrovm(_, request) {
      const input = parse(runRequest, await json(request));
      const known = input.clientToken && vms.find((vm) => vm.request.clientToken === input.clientToken);
      if (known) return known.description();
      if (vms.filter(({ state }) => state === 'PENDING').length >= MAX_STARTING) {
        throw new Refusal('ThrottlingException', 'the launch rate of the account is exceeded');
      }
      const isBroken = broken > 0;
      if (isBroken) broken--;
      const vm = await Vm.start(input, now, isBroken ? new Snapshot(program, 'nowhere/at/all') : ahead.shift()!);
      if (!isBroken) ahead.push(new Snapshot(program));
      vms.push(vm);
      return vm.description();
    },
    async CreateMicrovmAuthToken(id, request) {
      const input = parse(tokenRequest, await json(request));
      return { authToken: { 'X-aws-proxy-auth': live(id).newToken(input) } };
    },
    async TerminateMicrovm(id) {
      await live(id).end();
      return {};
    },
    async GetMicrovm(id) {
      return live(id).description();
    },
    async ListMicrovms() {
      return { items: vms.map((vm) => vm.description()) };
    },
  };
  const live = (id: string): Vm => {
    const vm = vms.find((each) => each.id === id);
    if (vm === undefined) throw new Refusal('ResourceNotFoundException', `there is no MicroVM ${id}`);
    return vm;
  };

  // Idle connections must stay open, because clients reuse them and do not retry.
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    try {
      const { pathname } = new URL(request.url!, 'http://aws');
      const [id = '', ...more] = pathname.slice(API.length + 1).split('/');
      const shape = [request.method, ...(id ? ['id'] : []), ...more].join(' ');
      const operation = OPERATIONS[shape] ?? '';
      asked.push(operation);
      if (!/Credential=[^,]+\/lambda\/aws4_request/.test(request.headers.authorization ?? '')) {
        throw new Refusal('AccessDeniedException', 'the request is not signed for lambda');
      }
      const failure = failures.get(operation)?.shift();
      if (failure) throw new Refusal(failure, 'as the test wants it');
      if (operations[operation] === undefined) throw new Refusal('ResourceNotFoundException', `there is no ${shape}`);
      answer(response, 200, await operations[operation](decodeURIComponent(id), request));
    } catch (error) {
      const type = error instanceof Refusal ? error.type : 'InternalServerException';
      response.setHeader('x-amzn-errortype', type);
      answer(response, STATUS[type]!, { message: String((error as Error).message) });
    }
  });
  return {
    url: await listening(server),
    vms,
    asked,
    failNext: (operation, ...errors) => failures.set(operation, errors),
    breakNext(count) {
      broken = count;
    },
    kill: (vm) => (vm as Vm).end(),
    async close() {
      await Promise.all([...vms, ...ahead].map((each) => each.end()));
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Snapshot that a VM resumes from: the image's listener, started and ready. */
class Snapshot {
  readonly exited: Promise<unknown>;
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #hooks: Promise<string>;

  constructor(program: string, listen = '0') {
    this.#process = spawn(process.execPath, [program], {
      // All processes of a VM end together.
      detached: true,
      env: {
        PATH: process.env.PATH,
        PLATFORM_RUNNER_HOOKS_PORT: '0',
        PLATFORM_RUNNER_LISTEN: listen,
        PLATFORM_RUNNER_LEASE_SECONDS: '60',
      },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.exited = once(this.#process, 'exit');
    this.#lines = createInterface(this.#process.stdout!)[Symbol.asyncIterator]();
    this.#hooks = this.#start();
    this.#hooks.catch(() => {});
  }

  /** Calls the hook `run` and returns the port of the runner that it starts. */
  async run(body: object): Promise<number> {
    const hooks = await this.#hooks;
    const running = this.#said('listening');
    running.catch(() => {});
    await call(`${hooks}/run`, body);
    return running;
  }

  async end(): Promise<void> {
    try {
      process.kill(-this.#process.pid!, 'SIGKILL');
    } catch {
      // The process has ended already.
    }
    await this.exited;
  }

  async #start(): Promise<string> {
    const hooks = `http://127.0.0.1:${await this.#said('hooks')}${HOOKS}`;
    await call(`${hooks}/ready`, {});
    return hooks;
  }

  async #said(message: string): Promise<number> {
    for (let line = await this.#lines.next(); !line.done; line = await this.#lines.next()) {
      const { message: given, port } = JSON.parse(line.value);
      if (given === message) return port;
    }
    throw new Error(`the VM ended before it said "${message}"`);
  }
}

async function call(hook: string, body: object): Promise<void> {
  const { status } = await fetch(hook, { method: 'POST', body: JSON.stringify(body) });
  if (status !== 200) throw new Error(`${hook} answered ${status}`);
}

class Vm implements FakeVm {
  readonly id = `microvm-${randomBytes(8).toString('hex')}`;
  readonly startedAt: number;
  readonly request: z.output<typeof runRequest>;
  readonly ended: Promise<void>;
  state: FakeVm['state'] = 'PENDING';
  readonly #now: () => number;
  readonly #snapshot: Snapshot;
  readonly #proxy: Server;
  readonly #tokens = new Map<string, { readonly expiresAt: number; readonly ports: readonly number[] }>();
  readonly #limit: NodeJS.Timeout;
  url = '';
  #runnerPort = 0;

  static async start(request: z.output<typeof runRequest>, now: () => number, from: Snapshot): Promise<Vm> {
    const vm = new Vm(request, now, from);
    vm.url = await listening(vm.#proxy);
    return vm;
  }

  private constructor(request: z.output<typeof runRequest>, now: () => number, from: Snapshot) {
    this.request = request;
    this.#now = now;
    this.startedAt = now();
    this.#proxy = createServer((incoming, response) => this.#forward(incoming, response));
    this.#snapshot = from;
    this.ended = from.exited.then(() => {
      this.state = 'TERMINATED';
      clearTimeout(this.#limit);
      this.#proxy.close();
      this.#proxy.closeAllConnections();
    });
    this.#limit = setTimeout(() => this.end(), this.maximumDurationInSeconds * 1000);
    this.#boot().catch(() => this.end());
  }

  get imageArn(): string {
    return this.request.imageIdentifier;
  }

  get maximumDurationInSeconds(): number {
    return this.request.maximumDurationInSeconds;
  }

  description(): object {
    const { id: microvmId, state, imageArn, maximumDurationInSeconds } = this;
    const startedAt = this.startedAt / 1000;
    return {
      microvmId,
      state,
      endpoint: this.url,
      imageArn,
      imageVersion: '1.0',
      maximumDurationInSeconds,
      startedAt,
    };
  }

  newToken({ expirationInMinutes, allowedPorts }: z.output<typeof tokenRequest>): string {
    const token = randomBytes(24).toString('hex');
    const expiresAt = this.#now() + expirationInMinutes * 60_000;
    this.#tokens.set(token, { expiresAt, ports: allowedPorts.map(({ port }) => port) });
    return token;
  }

  async end(): Promise<void> {
    await this.#snapshot.end();
    await this.ended;
  }

  async #boot(): Promise<void> {
    const { id: microvmId } = this;
    const { runHookPayload } = this.request;
    this.#runnerPort = await this.#snapshot.run({ microvmId, runHookPayload });
    if (this.state === 'PENDING') this.state = 'RUNNING';
  }

  #forward(incoming: IncomingMessage, response: ServerResponse): void {
    const { 'x-aws-proxy-auth': token, 'x-aws-proxy-port': port = '8080', ...headers } = incoming.headers;
    const known = this.#tokens.get(String(token));
    const refuse = (status: number): void => {
      incoming.resume();
      answer(response, status, { message: 'the proxy refuses' });
    };
    if (!known || known.expiresAt <= this.#now() || !known.ports.includes(Number(port))) return void refuse(403);
    if (this.state !== 'RUNNING') return void refuse(502);
    const onward = httpRequest(
      { host: '127.0.0.1', port: this.#runnerPort, method: incoming.method, path: incoming.url, headers },
      (answered) => {
        response.writeHead(answered.statusCode!, answered.headers);
        answered.pipe(response);
        answered.on('error', () => response.destroy());
      },
    );
    onward.on('error', () => (response.headersSent ? response.destroy() : refuse(502)));
    response.on('close', () => onward.destroy());
    incoming.on('error', () => onward.destroy());
    incoming.pipe(onward);
  }
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const { data, error } = schema.safeParse(value);
  if (error) throw new Refusal('ValidationException', z.prettifyError(error));
  return data;
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
