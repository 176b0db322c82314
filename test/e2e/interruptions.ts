import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { type Answer, clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

/** Prints its attempt number, and hangs in the named attempts. The marker identifies its process. */
const program = (attempts: string, marker: string) => `case "${attempts}" in *"\${PLATFORM_ATTEMPT:-1}"*)
  sleep 60${marker};;
esac
echo "{\\"attempt\\": $PLATFORM_ATTEMPT}"
`;

const statusOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
};

/** Finds process 1 of the sandbox in which a hanging command with this marker runs. */
export function sandboxOf(marker: string): number | undefined {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== `sleep\x0060${marker}\x00`) continue;
    } catch {
      continue;
    }
    for (let at = pid; at !== '0' && at !== ''; at = /^PPid:\s+(\d+)/m.exec(statusOf(at))?.[1] ?? '') {
      const inside = /^NSpid:(.*)/m.exec(statusOf(at))?.[1]?.trim().split(/\s+/) ?? [];
      if (inside.length > 1 && inside.at(-1) === '1') return Number(at);
    }
  }
  return undefined;
}

/** Kills sandboxes on this machine from outside, as their host may. */
export function interruptionsSuite(target: () => Target): void {
  describe('a run whose sandbox goes away', () => {
    let client: Client;
    beforeAll(() => {
      client = clientOf(target());
    });
    const publish = async (attempts: string, more: object = {}) => {
      const marker = String(Math.random()).slice(1, 12);
      const name = `interrupted-${marker.slice(1)}`;
      const manifest = { runtime: { command: 'bash main.sh' }, ...more };
      const { agent } = await publishCode(client, name, { 'main.sh': program(attempts, marker) }, manifest);
      const lose = async (but?: number): Promise<number> => {
        const found = () => {
          const pid = sandboxOf(marker);
          return pid === but ? undefined : pid;
        };
        await expect.poll(found, { timeout: 60_000 }).toBeDefined();
        const pid = found()!;
        process.kill(pid, 'SIGKILL');
        return pid;
      };
      const run = (headers: Record<string, string> = {}) =>
        request(target(), 'POST', `/${agent.org_slug}/${name}/v1/run`, { key: target().key, json: {}, headers });
      const get = async (path: string) =>
        expectOk(await request(target(), 'GET', `/workspaces/${agent.org_id}/${path}`, { key: target().key }));
      const read = (answer: Answer) => get(`runs/${answer.headers.get('x-run-id')}`);
      const interruptions = async (answer: Answer): Promise<unknown[]> => {
        const { events } = await get(`traces/${answer.headers.get('x-run-id')}/events`);
        return events
          .filter(({ event_type }: { event_type: string }) => event_type === 'interrupted')
          .map(({ payload }: { payload: unknown }) => payload);
      };
      return { agent, lose, run, read, interruptions };
    };

    test.each([
      ['somebody waits', {}],
      ['nobody waits', { prefer: 'respond-async' }],
    ])('begins again once, if its manifest says so, when %s', async (_, headers) => {
      const { agent, lose, run, read, interruptions } = await publish('1', { retry_on_interruption: true });
      expect((await client.getAgent({ params: { id: agent.id } })).retry_on_interruption).toBe(true);
      const [answer] = await Promise.all([run(headers), lose()]);
      await expect.poll(async () => (await read(answer)).status, { timeout: 60_000 }).toBe('completed');
      expect(await read(answer)).toMatchObject({ output_data: { attempt: 2 } });
      expect(await interruptions(answer)).toEqual([{ attempt: 1, begins_again: true }]);
    });

    test('fails when it happens a second time', async () => {
      const { lose, run, interruptions } = await publish('12', { retry_on_interruption: true });
      const [answer] = await Promise.all([run(), lose().then(lose)]);
      expect(expectError(answer, 500, 'INTERNAL_ERROR', 'The sandbox was lost')).toMatchObject({
        cause: 'interrupted',
      });
      expect(await interruptions(answer)).toEqual([
        { attempt: 1, begins_again: true },
        { attempt: 2, begins_again: false },
      ]);
    });

    test('fails at once where its manifest does not say so', async () => {
      const { lose, run, interruptions } = await publish('1');
      const [answer] = await Promise.all([run(), lose()]);
      const error = expectError(answer, 500, 'INTERNAL_ERROR', 'The sandbox was lost');
      expect(error).toMatchObject({ cause: 'interrupted', is_retryable: true, hint: expect.stringContaining('retry') });
      expect(await interruptions(answer)).toEqual([{ attempt: 1, begins_again: false }]);
    });
  });
}
