import { expect } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { questionListener } from '#core/collaboration/questions.ts';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { LlmAnswer, LlmMessage, LlmRequest, LlmToolCall } from '#core/ports/llm.ts';
import type { ExecEvent, ExecRequest, Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import { queryAll } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { taskPusher } from '#core/wires/a2a/pushes.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { runHeads } from './run-heads.ts';

/**
 * A durable run whose process dies at a call of a port, before or after its effect: before and after the model answers,
 * before and in a tool, in three of ten tools, and at each write. Other processes, which may die as well, continue it.
 */

export const SENDS = ['d0', 'd1', 'd2', 'd3', 'd4', 'd5', 'd6', 'd7', 'd8', 'd9'];
const send = (what: string): Pick<LlmToolCall, 'name' | 'input'> => ({ name: 'send', input: { what } });
/** What the model does, by turn. */
const TURNS: readonly (readonly Pick<LlmToolCall, 'name' | 'input'>[])[] = [
  [send('a'), send('b'), { name: 'look', input: {} }],
  [{ name: 'look', input: {} }, send('c')],
  SENDS.map(send),
  [{ name: 'submit_result', input: { result: 'done' } }],
];
const UNKNOWN = 'Whether it took effect is unknown';

/** What a model was asked. */
type Asked = Pick<LlmRequest, 'provider' | 'model' | 'system' | 'tools' | 'messages'>;

/** The outside world: what was sent, and every conversation that a model was asked with. */
interface World {
  readonly deps: MemoryDeps;
  readonly sent: string[];
  readonly asked: (readonly LlmMessage[])[];
  readonly requests: Asked[];
}

/** A process that dies at call number `lifetime` of a port. */
export interface Life {
  readonly lifetime: number;
  readonly lastOneHappens: boolean;
}

export const IMMORTAL: Life = { lifetime: Number.POSITIVE_INFINITY, lastOneHappens: false };

export class Death {
  readonly #death = Promise.withResolvers<void>();
  readonly died = this.#death.promise;
  asked = 0;
  readonly #life: Life;

  readonly #isDead: () => boolean;

  constructor(life: Life, isDead = (): boolean => false) {
    this.#life = life;
    this.#isDead = isDead;
  }

  /** Makes a call of a port, unless the process is dead. */
  async call<T>(work: () => Promise<T>): Promise<T> {
    this.asked += 1;
    if (this.#isDead()) {
      this.#death.resolve();
      return new Promise<never>(() => {});
    }
    const { lifetime, lastOneHappens } = this.#life;
    if (this.asked < lifetime) return work();
    if (this.asked === lifetime && lastOneHappens) await work();
    this.#death.resolve();
    return new Promise<never>(() => {});
  }

  port<Port extends object>(port: Port): Port {
    return new Proxy(port, {
      get: (target, name) => {
        const method = Reflect.get(target, name);
        if (typeof method !== 'function') return method;
        return (...values: unknown[]) => this.call(async () => method.apply(target, values));
      },
    });
  }
}

function answer({ messages }: LlmRequest): LlmAnswer {
  const turn = messages.filter(({ role }) => role === 'assistant').length;
  const toolCalls = TURNS[turn]!.map((call, index) => ({ id: `call-${turn}-${index}`, ...call }));
  const message = { role: 'assistant', text: '', toolCalls, raw: { signature: `signed-${turn}` } } as const;
  return { text: '', toolCalls, finishReason: 'tool_calls', usage: { inputTokens: 10, outputTokens: 5 }, message };
}

async function* tools({ sent }: World, death: Death, { command }: ExecRequest): AsyncGenerator<ExecEvent> {
  await death.call(async () => {
    const what = /PLATFORM_ARGUMENT_what=(\w+)/.exec(command)?.[1];
    if (what !== undefined) sent.push(what);
  });
  yield { type: 'stdout', data: Buffer.from('ok') };
  yield { type: 'exit', exit: { reason: 'exited', exitCode: 0, durationMs: 1 } };
}

/** Begins a process on the tables of others. What it asks of ports, it asks of them no more once it is dead. */
export function processOn(
  deps: MemoryDeps,
  { life = IMMORTAL, isDead }: { readonly life?: Life; readonly isDead?: () => boolean },
  outside: (death: Death) => Pick<AllDeps, 'sandbox' | 'llm'>,
) {
  const death = new Death(life, isDead);
  const background = new Set<Promise<unknown>>();
  const process: AllDeps = {
    ...deps,
    main: death.port(deps.main),
    runs: death.port(deps.runs),
    counters: death.port(deps.counters),
    blobs: death.port(deps.blobs),
    vault: death.port(deps.vault),
    ...outside(death),
    showQuestion: (question) => questionListener(process)(question),
    pushTask: (news) => taskPusher(process)(news),
    background(work) {
      background.add(work);
      return work.finally(() => background.delete(work));
    },
  };
  const idle = async () => {
    while (background.size > 0) await Promise.all(background);
  };
  /** Does what a process does at its start: it takes up the runs of processes that have ended. */
  const recover = async () => {
    await sweepLostRuns(process, { all: true });
    await resumeRuns(process, { all: true });
    await idle();
  };
  return { process, death, idle, recover };
}

/** A sandbox in which commands do what they do until its process dies, and which has no files. */
export function sandboxOf(death: Death, exec: SandboxSession['exec']): Sandbox {
  const session: SandboxSession = {
    exec,
    writeFile: async () => {},
    readFile: () => Promise.reject(new Error('there are no files')),
    listFiles: async () => [],
    close: async () => {},
  };
  return {
    open: () => death.call(async () => session),
    status: async () => ({ kind: 'bubblewrap', interpreters: {} }),
    close: async () => {},
  };
}

/** Begins a process on the tables of a world, which asks its model and uses its tools. */
export function processOf(world: World, life: Life, isDead?: () => boolean) {
  return processOn(world.deps, { life, isDead }, (death) => ({
    sandbox: sandboxOf(death, (request) => tools(world, death, request)),
    llm: {
      generate: (request) =>
        death.call(async () => {
          const { provider, model, system, tools, messages } = request;
          world.requests.push(structuredClone({ provider, model, system, tools, messages }));
          world.asked.push(structuredClone(messages));
          return answer(request);
        }),
    },
  }));
}

const tool = (name: string, command: string, more: object) => ({ name, description: 'x', command, ...more });

/** Makes a workspace with an agent whose runs are durable; `more` has further members of its manifest. */
export async function setUp(more: object = {}) {
  const world: World = { deps: memoryDeps(), sent: [], asked: [], requests: [] };
  const { deps } = world;
  const { key, slug, workspaceId } = await addUser(deps, 'durable');
  const { process } = processOf(world, IMMORTAL);
  const request = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    new Request(`http://127.0.0.1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  const app = createWebApp(process, routes, allHandlers(process));
  const send = async (method: string, path: string, body?: object): Promise<void> => {
    const response = await app(request(method, path, body));
    if (!response.ok) throw new Error(await response.text());
  };
  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' });
  const input_schema = { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] };
  await send('POST', '/agents', {
    name: 'lasting',
    type: 'agent',
    description: 'x',
    prompt: 'Send.',
    required_secrets: [],
    durable: true,
    ...more,
    custom_tools: [
      tool('send', './send.sh {{what}}', { input_schema }),
      tool('look', 'look', { interruption: 'retry' }),
    ],
  });
  return {
    world,
    workspaceId,
    send,
    request,
    call: () => request('POST', `/${slug}/lasting/latest/run`, {}, { prefer: 'respond-async' }),
  };
}

/**
 * Advances the time until the promise is settled, by `stepMs` every few milliseconds: what takes real time, such as files
 * and threads, must not let a run reach its deadline, not even on a busy machine.
 */
export async function settled<T>({ clock }: MemoryDeps, promise: Promise<T>, stepMs = 500): Promise<T> {
  let isSettled = false;
  promise.catch(() => {}).finally(() => (isSettled = true));
  for (let count = 0; !isSettled; count++) {
    await new Promise((tick) => setTimeout(tick, 1));
    if (count % 5 === 4) await clock.advance(stepMs);
  }
  return promise;
}

/** Returns a run whose process died once `count` messages were sent. */
export async function interruptedRun(count: number) {
  const { world, workspaceId, call, send } = await setUp();
  const { deps } = world;
  const begin = (isDead: () => boolean) => {
    const { process, death, idle } = processOf(world, IMMORTAL, isDead);
    return { process, died: death.died, idle };
  };
  const first = begin(() => world.sent.length >= count);
  const app = createWebApp(first.process, routes, allHandlers(first.process));
  const called = app(call()).then(() => first.idle());
  await settled(deps, Promise.race([called, first.died]));
  const [head] = await runHeads(deps, workspaceId);
  const runId = String(head!.sk).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  const runs = new RunStore(deps, workspaceId);
  return {
    ...{ world, workspaceId, runId },
    send: (method: string, path: string, body?: object) => settled(deps, send(method, path, body)),
    /** Lets another process take the run up. It may die at once when it has taken it. */
    async resume({ all = true, dies = false } = {}) {
      const taken = () => deps.lines.filter(({ message }) => message === 'run taken up').length;
      const before = taken();
      const { process, died, idle } = begin(() => dies && taken() > before);
      const recover = async () => {
        await sweepLostRuns(process, { all });
        await resumeRuns(process, { all });
        await idle();
      };
      await settled(deps, Promise.race([recover(), died]));
      return runs.find(runId);
    },
    /** Lets processes take the run up that each leave it after a turn. Returns their number. */
    async pass() {
      for (let count = 1; count < 20; count++) {
        const { process, idle } = begin(() => false);
        await settled(deps, resumeRuns({ ...process, handOver: { afterMs: 0 } }).then(idle));
        if ((await runs.find(runId))?.status !== 'running') return count;
      }
      throw new Error('the run does not end');
    },
    /** Checks that nothing is left of a run that has ended. */
    async isOver() {
      expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
      expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
      expect((await callsInUse(deps, (await findWorkspace(deps, workspaceId))!)).concurrent_calls).toBe(0);
      expect(new Set(world.sent).size).toBe(world.sent.length);
    },
  };
}

/** Lets processes live until one of them ends the run. Returns the calls of ports that the first one made. */
export async function history(lives: readonly Life[]) {
  const { world, workspaceId, call } = await setUp();
  const { deps } = world;
  const [first = IMMORTAL, ...others] = lives;
  const begun = processOf(world, first);
  const app = createWebApp(begun.process, routes, allHandlers(begun.process));
  const called = app(call()).then(async (response) => {
    expect(response.status).toBe(202);
    await begun.idle();
  });
  await settled(deps, Promise.race([called, begun.death.died]));
  for (const life of [...others, IMMORTAL]) {
    const { death, recover } = processOf(world, life);
    await settled(deps, Promise.race([recover(), death.died]));
  }
  return { world, workspaceId, asked: begun.death.asked };
}

export async function checkHistory(
  { world: { deps, sent, asked }, workspaceId }: Awaited<ReturnType<typeof history>>,
  where: string,
) {
  const runs = new RunStore(deps, workspaceId);
  const heads = await runHeads(deps, workspaceId);
  // The process died before it recorded the run, so nothing was answered either.
  if (heads.length === 0) {
    expect(sent, where).toEqual([]);
    expect(await Array.fromAsync(dueLeases(deps, { all: true })), where).toEqual([]);
    return;
  }
  expect(heads.length, where).toBe(1);
  const [run] = await runs.findAll([String(heads[0]!.sk).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')]);
  expect(run, where).toMatchObject({ status: 'completed', errorMessage: null });
  expect((await runs.body(run!.id))?.output, where).toEqual({ result: 'done' });
  expect(new Set(sent).size, `${where}: sent twice: ${sent}`).toBe(sent.length);
  const last = asked.at(-1)!;
  const results = last.flatMap((message) => (message.role === 'tool' ? message.results : []));
  const unknown = results.filter(({ text }) => text.includes(UNKNOWN));
  // What was not sent is named.
  const all = ['a', 'b', 'c', ...SENDS];
  const missing = all.filter((what) => !sent.includes(what));
  expect(unknown.length, `${where}: missing ${missing}`).toBeGreaterThanOrEqual(missing.length);
  expect(
    unknown.every(({ name }) => name === 'send'),
    where,
  ).toBe(true);
  // Everything that a provider has in its cache is sent again as it was.
  for (const messages of asked) {
    const length = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
    expect(last.slice(0, length), where).toEqual(messages.slice(0, length));
  }
  expect(await Array.fromAsync(dueLeases(deps, { all: true })), where).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true })), where).toEqual([]);
  expect((await callsInUse(deps, (await findWorkspace(deps, workspaceId))!)).concurrent_calls, where).toBe(0);
  await deps.endedRuns?.settle();
  const rollups = await Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(workspaceId) }));
  expect(
    rollups.reduce((sum, { runs }) => sum + Number(runs ?? 0), 0),
    where,
  ).toBe(1);
}
