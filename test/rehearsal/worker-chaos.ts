import { beforeAll, describe, expect, test } from 'vitest';
import { SandboxPool } from '#aws/fargate/pool.ts';
import { expectOk } from '#test/e2e/expect.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { POOL, type Rehearsal } from './platform.ts';

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
    async function program(name: string, command: string, more: object = {}): Promise<void> {
      const manifest = { runtime: { command }, durable: true, ...more };
      await publishCode(clientOf(target(), user.key), name, { 'main.sh': '' }, manifest);
    }
    const pool = () => new SandboxPool(target().deps, { max: POOL.max, startMs: POOL.startSeconds * 1000 });
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

    test('a program works on while no function waits for it, and is looked at', limit, async () => {
      // Its key still opens the platform after others have looked at it.
      const code = 'import json; from agent_platform import storage; storage.set("hours", "k", [7])';
      const end = `${code}; print(json.dumps([*storage.get("hours", "k")["value"], $PLATFORM_ATTEMPT]))`;
      await program(
        'hours',
        `for i in 1 2 3 4; do echo "line $i" >&2; sleep 5; done; sleep 15; python3 -c '${end.replace('$PLATFORM_ATTEMPT', `'"$PLATFORM_ATTEMPT"'`)}'`,
      );
      const id = await begin('hours');
      const { lambda, platform } = target();
      const workers = () => lambda.invocations.filter(({ fn }) => fn === `${platform}-loop-worker`).length;
      const before = workers();
      const run = await ended(id);
      expect(run, JSON.stringify(run)).toMatchObject({ status: 'completed', output_data: [7, 1] });
      expect(run.duration_ms).toBeGreaterThan(19_000);
      expect(workers() - before).toBeGreaterThan(1);
      const { stderr } = expectOk(await send('GET', runs(`/${id}/logs`)));
      expect(stderr).toBe('line 1\nline 2\nline 3\nline 4\n');
      const { events } = expectOk(await send('GET', runs(`/${id}/events`)));
      const told = events.map(({ data }: { data: { type?: string; text?: string } }) =>
        data.type === 'stderr' ? data.text : '',
      );
      expect(told.join('')).toBe(stderr);
      // Only the function that took the call handed it over.
      expect(await reasons(id)).toEqual(['handover']);
    });

    test('a program whose sandbox is lost begins again, if it may', limit, async () => {
      const code =
        'echo "attempt $PLATFORM_ATTEMPT" >&2; if [ $PLATFORM_ATTEMPT = 1 ]; then sleep 120; fi; echo "[$PLATFORM_ATTEMPT]"';
      await program('lost-twice', code, { retry_on_interruption: true });
      await program('lost-once', code);
      const ids = [await begin('lost-twice'), await begin('lost-once')];
      const { lambda, ecs } = target();
      const printed = async (id: string) => JSON.stringify((await send('GET', runs(`/${id}/events`))).body);
      for (const id of ids) await expect.poll(() => printed(id), { timeout: 60_000 }).toContain('attempt 1');
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      await lambda.settled();
      // Only their tasks are at work.
      for (const slot of (await pool().read()).slots.filter(({ state }) => state === 'claimed'))
        ecs.kill(slot.taskArn!);
      const [again, failed] = await Promise.all(ids.map(ended));
      expect(again).toMatchObject({ status: 'completed', output_data: [2] });
      expect(failed).toMatchObject({ status: 'failed', error_code: 'INTERNAL_ERROR' });
      expect(failed!.error_message).toContain('sandbox was lost');
    });

    test('a program that works by itself ends when its run is cancelled', limit, async () => {
      await program('cancelled', 'while :; do date > /tmp/beat; sleep 1; done');
      const id = await begin('cancelled');
      const { lambda, ecs } = target();
      await expect
        .poll(async () => (await send('GET', runs(`/${id}/events`))).body.events.length, { timeout: 60_000 })
        .toBeGreaterThan(0);
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      await lambda.settled();
      const running = () =>
        ecs.tasks.filter(({ desiredStatus }) => desiredStatus === 'RUNNING').map(({ taskArn }) => taskArn);
      const tasks = running();
      expectOk(await send('DELETE', runs(`/${id}`)));
      expect(await ended(id)).toMatchObject({ status: 'cancelled', error_code: 'RUN_CANCELLED' });
      // Its task is replaced.
      await target().tick('pool-keeper');
      await expect
        .poll(() => running().filter((arn) => tasks.includes(arn)).length, { timeout: 60_000 })
        .toBeLessThan(tasks.length);
    });

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
