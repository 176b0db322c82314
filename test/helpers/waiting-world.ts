import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { parseConfig } from '#core/base/config.ts';
import type { Json } from '#core/base/json.ts';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { LlmAnswer, LlmRequest } from '#core/ports/llm.ts';
import type { ExecEvent } from '#core/ports/sandbox.ts';
import { RunStore } from '#core/runs/store.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import { type Life, processOn, sandboxOf, settled as settledIn } from '#test/helpers/durable-histories.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser, type TestUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const CALLS = [{ id: 'c', name: 'submit_result', input: { result: 'hello' } }];
const ANSWER: LlmAnswer = {
  text: 'hello',
  toolCalls: CALLS,
  finishReason: 'tool_calls',
  usage: { inputTokens: 1, outputTokens: 1 },
  message: { role: 'assistant', text: 'hello', toolCalls: CALLS, raw: {} },
};

/** A call of a tool of the platform. */
export interface FirstCall {
  readonly name: 'later' | 'ask_human' | 'wait';
  readonly input: { readonly [member: string]: Json };
}

function calling(call: FirstCall): LlmAnswer {
  const toolCalls = [{ id: 'f', ...call }];
  return { ...ANSWER, text: '', toolCalls, message: { role: 'assistant', text: '', toolCalls, raw: {} } };
}

async function* exec(): AsyncGenerator<ExecEvent> {
  yield { type: 'exit', exit: { reason: 'exited', exitCode: 0, durationMs: 1 } };
}
/** Slow enough that no run is late. */
export const settled = <T>(deps: MemoryDeps, promise: Promise<T>): Promise<T> => settledIn(deps, promise, 10);

export type Sent = Record<string, string>;
/** The members that these tests read of answers. */
interface Body {
  readonly run_id: string;
  readonly run_at: string;
  readonly status: string;
  readonly started_at: string;
  readonly duration_ms: number;
  readonly error: { readonly code: string; readonly message: string };
  readonly error_message: string | null;
  readonly held_by: { readonly rule: string; readonly until: string; readonly begins_at: string | null } | null;
  readonly runs: readonly { readonly id: string; readonly run_at: string }[];
}

/**
 * A workspace with a prompt `plain` and a durable loop `lasting`, whose model answers at once.
 *
 * @param ask Called before each answer; what it throws is the model's fault.
 */
export async function waitingWorld(
  plan: Record<string, number> = {},
  {
    ask = () => {},
    manifest = {},
    first,
  }: {
    readonly ask?: (request: number) => void | Promise<void>;
    readonly manifest?: object;
    /** What the loop calls in its first turn. */
    readonly first?: FirstCall;
  } = {},
) {
  const config = parseConfig({ PLATFORM_PLANS: JSON.stringify({ pro: plan }), PLATFORM_DEFAULT_PLAN: 'pro' });
  const deps = memoryDeps({ plans: config.plans, defaultPlan: 'pro' });
  const user = await addUser(deps, 'later');
  const asked: number[] = [];
  const processOf = (life?: Life) =>
    processOn(deps, { life }, (death) => ({
      sandbox: sandboxOf(death, exec),
      llm: {
        generate: ({ messages, tools }: LlmRequest) =>
          death.call(async () => {
            asked.push(deps.clock.now());
            await ask(asked.length);
            const isFirst = messages.every(({ role }) => role !== 'assistant');
            return first !== undefined && isFirst && tools?.length ? calling(first) : ANSWER;
          }),
      },
    }));
  const { process, idle } = processOf();
  const appOf = (of: AllDeps) => createWebApp(of, routes, allHandlers(of));
  const app = appOf(process);
  const requestOf = (by: TestUser, method: string, path: string, body?: object, headers: Sent = {}) =>
    new Request(`http://127.0.0.1${path}`, {
      method,
      headers: { authorization: `Bearer ${by.key}`, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  const send = async (method: string, path: string, body?: object, headers?: Sent, by = user) => {
    const response = await settled(deps, app(requestOf(by, method, path, body, headers)));
    return { status: response.status, body: (await response.json()) as Body, headers: response.headers };
  };
  const made = async (method: string, path: string, body: object) => {
    const answer = await send(method, path, body);
    if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
  };
  await made('PUT', `/workspaces/${user.workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' });
  const agent: Record<string, unknown> = { description: 'x', prompt: 'Greet.', required_secrets: [], ...manifest };
  const { durable = true, ...others } = agent;
  await made('POST', '/agents', { ...others, name: 'plain', type: 'prompt' });
  await made('POST', '/agents', {
    ...others,
    name: 'lasting',
    type: 'agent',
    durable,
    ...(first && { loop: { tools: [first.name] } }),
  });
  const call = (headers: Sent, name = 'plain', by = user, input: object = {}) =>
    send('POST', `/later/${name}/latest/run`, input, { prefer: 'respond-async', ...headers }, by);
  const tick = async () => {
    await settled(deps, resumeRuns(process).then(idle));
  };
  const run = async (id: string) => (await send('GET', `/workspaces/${user.workspaceId}/runs/${id}`)).body;
  const runs = new RunStore(deps, user.workspaceId);
  const waiting = new WaitingRuns(deps, user.workspaceId);
  return { deps, user, asked, processOf, requestOf, appOf, send, call, tick, run, runs, waiting, idle };
}
