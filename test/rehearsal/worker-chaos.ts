import { beforeAll, describe, expect, test } from 'vitest';
import { expectOk } from '#test/e2e/expect.ts';
import { request } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import type { Rehearsal } from './platform.ts';

const bash = (command: string): ScriptedTurn => ({ toolCalls: [{ name: 'bash', input: { command } }] });
const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
const limit = { timeout: 240_000 };

/** Durable runs when functions end at their time, or die: another one continues them. */
export function workerChaosSuite(target: () => Rehearsal): void {
  describe('chaos among the functions of durable runs', () => {
    let user: TestUser;
    const send = (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
      request(target(), method, path, { key: user.key, json, headers });
    const runs = (path = '') => `/workspaces/${user.workspaceId}/runs${path}`;

    beforeAll(async () => {
      user = await target().addUser('workers');
      const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-workers-0123456789' };
      expectOk(await send('PUT', `/workspaces/${user.workspaceId}/secrets`, secret));
    });

    async function publish(name: string, turns: readonly ScriptedTurn[]): Promise<void> {
      const prompt = `Work as ${name}. [[llm ${JSON.stringify(turns)}]]`;
      const loop = { type: 'agent', description: 'x', required_secrets: [], durable: true };
      expectOk(await send('POST', '/agents', { ...loop, name, prompt }), 201);
    }
    const asked = (name: string) => target().llm.requests.filter(({ text }) => text.includes(`Work as ${name}.`));
    const untilAsked = (name: string, times: number) =>
      expect.poll(() => asked(name).length, { timeout: 60_000 }).toBe(times);
    async function ended(id: string) {
      const look = async () => {
        await target().passMinute?.();
        return expectOk(await send('GET', runs(`/${id}`)));
      };
      await expect.poll(async () => (await look()).completed_at, { timeout: 120_000, interval: 1000 }).not.toBeNull();
      return look();
    }
    async function reasons(id: string): Promise<string[]> {
      const path = `/workspaces/${user.workspaceId}/traces/${id}/events?limit=200`;
      const { events } = expectOk(await send('GET', path));
      return events.flatMap(({ event_type, payload }: { event_type: string; payload: { reason: string } }) =>
        event_type === 'interrupted' ? [payload.reason] : [],
      );
    }
    async function begin(name: string): Promise<string> {
      return expectOk(await send('POST', `/workers/${name}/v1/run`, {}, { prefer: 'respond-async' }), 202).run_id;
    }

    test('a run whose worker has little time left passes to the next one, with its files', limit, async () => {
      const lines = Array.from({ length: 6 }, (_, line) => bash(`echo ${line} >> log.txt; sleep 2`));
      await publish('passing', [...lines, bash('echo "$(wc -l < log.txt) lines"'), submit]);
      const id = await begin('passing');
      expect(await ended(id)).toMatchObject({ status: 'completed', output_data: { result: 'done' } });
      const passed = await reasons(id);
      // The call itself is the first to hand it over.
      expect(passed.length).toBeGreaterThan(2);
      expect(new Set(passed)).toEqual(new Set(['handover']));
      expect(asked('passing')).toHaveLength(8);
      expect(asked('passing').at(-1)!.text).toContain('6 lines');
    });

    test.for([
      ['loop-worker', true],
      ['calls', false],
    ] as const)(
      'a run whose %s dies in a tool continues, and says what is unknown',
      limit,
      async ([fn, isDetached]) => {
        const name = `killed-${fn}`;
        await publish(name, [bash('echo one >> log.txt'), bash('echo two >> log.txt; sleep 20'), submit]);
        const answer = isDetached ? begin(name) : send('POST', `/workers/${name}/v1/run`, {}).catch(() => undefined);
        await untilAsked(name, 2);
        await new Promise((resolve) => setTimeout(resolve, 1000));
        const { platform, lambda } = target();
        expect(await lambda.kill(`${platform}-${fn}`)).toBe(1);
        await answer;
        const listed = expectOk(await send('GET', runs(`?agent_name=${name}`)));
        expect(listed.runs).toHaveLength(1);
        const { id } = listed.runs[0];
        expect(await ended(id)).toMatchObject({ status: 'completed', output_data: { result: 'done' } });
        expect((await reasons(id)).filter((reason) => reason !== 'handover')).toEqual(['host_lost']);
        expect(asked(name)).toHaveLength(3);
        expect(asked(name).at(-1)!.text).toContain('The platform was interrupted while this ran.');
      },
    );
  });
}
