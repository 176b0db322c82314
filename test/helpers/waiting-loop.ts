import { expect } from 'vitest';
import { leasesOf } from '#core/accounts/limits/admission.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { type Config, parseConfig } from '#core/base/config.ts';
import type { LlmAnswer, LlmMessage, LlmToolCall } from '#core/ports/llm.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { RunStore } from '#core/runs/store.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import { IMMORTAL, type Life, processOn, sandboxOf, settled } from './durable-histories.ts';
import { memoryDeps } from './memory-deps.ts';
import { addUser } from './users.ts';
import { createWebApp } from './web-app.ts';

export type Call = Pick<LlmToolCall, 'name' | 'input'>;

/** The members that these tests read of answers. */
interface Answer {
  readonly run_id: string;
  readonly key: string;
  readonly next_cursor: string;
  readonly approvals: readonly { readonly id: string }[];
}

export const HOUR_MS = 3_600_000;
export const pay = (amount: number, to = 'ann'): Call => ({ name: 'pay', input: { to, amount } });
export const DONE: Call = { name: 'submit_result', input: { result: 'done' } };
export const PAY = {
  name: 'pay',
  description: 'x',
  command: './pay.sh {{to}} {{amount}}',
  input_schema: {
    type: 'object',
    properties: { to: { type: 'string' }, amount: { type: 'integer' } },
    required: ['to', 'amount'],
  },
};

/** A workspace may have ten runs that wait. */
const { plans } = parseConfig({ PLATFORM_PLANS: '{"enterprise": {"waiting_runs": 10}}' });

/** A durable loop of one workspace with a scripted model, in processes that begin, leave and take up. */
export async function waitingLoop(
  agent: object,
  turns: readonly (readonly Call[])[],
  settings: Partial<Config> = {},
  owner = 'asker',
) {
  const deps = memoryDeps({ plans, ...settings });
  const paid: string[] = [];
  const asked: (readonly LlmMessage[])[] = [];
  const user = await addUser(deps, owner);
  const { key, slug, workspaceId } = user;
  const begin = (life: Life = IMMORTAL) =>
    processOn(deps, { life }, (death) => ({
      sandbox: sandboxOf(death, async function* ({ command }) {
        await death.call(async () => {
          const values = [...command.matchAll(/PLATFORM_ARGUMENT_(?:to|amount)='?(\w+)/g)].map(([, value]) => value);
          if (values.length > 0) paid.push(values.join(' '));
        });
        yield { type: 'stdout', data: Buffer.from('paid') };
        yield { type: 'exit', exit: { reason: 'exited', exitCode: 0, durationMs: 1 } };
      }),
      llm: {
        generate: ({ messages }) =>
          death.call(async (): Promise<LlmAnswer> => {
            asked.push(structuredClone(messages));
            const turn = messages.filter(({ role }) => role === 'assistant').length;
            const toolCalls = turns[turn]!.map((call, index) => ({ id: `call-${turn}-${index}`, ...call }));
            const message = { role: 'assistant', text: '', toolCalls, raw: {} } as const;
            const usage = { inputTokens: 10, outputTokens: 5 };
            return { text: '', toolCalls, finishReason: 'tool_calls', usage, message };
          }),
      },
    }));
  const host = begin();
  const app = createWebApp(host.process, routes, allHandlers(host.process));
  async function send(
    method: string,
    path: string,
    body?: object,
    as: string = key,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ status: number; body: Answer }> {
    const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json', ...more };
    const request = new Request(`http://127.0.0.1${path}`, {
      method,
      headers: path.endsWith('/run') ? { ...headers, prefer: 'respond-async' } : headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const response = await settled(deps, app(request));
    return { status: response.status, body: (await response.json()) as Answer };
  }
  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' });
  const published = await send('POST', '/agents', {
    ...{ name: 'payer', type: 'agent', description: 'x', prompt: 'Pay.', required_secrets: [], custom_tools: [PAY] },
    ...agent,
  });
  expect(published).toMatchObject({ status: 201 });
  const runs = new RunStore(deps, workspaceId);
  const approvals = `/workspaces/${workspaceId}/approvals`;
  return {
    ...{ deps, paid, asked, user, send, app, runs, workspaceId, approvals, begin },
    async call(headers: Readonly<Record<string, string>> = {}): Promise<string> {
      const { status, body } = await send('POST', `/${slug}/payer/latest/run`, {}, key, headers);
      expect(status).toBe(202);
      await settled(deps, host.idle());
      return body.run_id;
    },
    list: async () => (await send('GET', `${approvals}?status=waiting`)).body.approvals,
    decide: (id: string, body: object, as?: string) => send('POST', `${approvals}/${id}/decision`, body, as),
    /** Lets the first process finish what it has begun. */
    idle: () => settled(deps, host.idle()),
    /** Lets another process take up what is due. */
    async next(life?: Life) {
      const { recover, death } = begin(life);
      await settled(deps, Promise.race([recover(), death.died]));
    },
    /** Returns the results of the last turn before the last request to the model. */
    results: () =>
      asked
        .at(-1)!
        .flatMap((message) => (message.role === 'tool' ? message.results : []))
        .map(({ text }) => text),
    waiting: () => new WaitingRuns(deps, workspaceId).count(),
    async isOver() {
      expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
      expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
      expect(await new WaitingRuns(deps, workspaceId).count()).toBe(0);
    },
  };
}
