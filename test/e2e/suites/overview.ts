import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

/** Activity in all workspaces of a user. */
export function overviewSuite(target: () => Target, { python, node }: Languages): void {
  const hasSandbox = python || node;
  describe('the overview of a user', () => {
    let user: TestUser;
    let outsider: TestUser;
    let team: { id: string; slug: string };
    const send = (method: string, path: string, options: Parameters<typeof request>[3] = {}) =>
      request(target(), method, path, { key: user.key, ...options });
    // biome-ignore lint/suspicious/noExplicitAny: parts of the answer are looked at.
    const overviewOf = async (id: string): Promise<any> => {
      const { workspaces } = expectOk(await send('GET', '/users/me/overview'));
      return workspaces.find((each: { id: string }) => each.id === id);
    };
    const inTeam = (path: string) => `/workspaces/${team.id}${path}`;
    const asTeam = () => ({ 'x-workspace-id': team.id });

    beforeAll(async () => {
      user = await target().addUser('overview-user');
      outsider = await target().addUser('overview-outsider');
      team = expectOk(await send('POST', '/workspaces', { json: { name: 'overview team' } }), 201).workspace;
    });

    test('has a part for each workspace, which is empty at first', async () => {
      const empty = {
        running: { count: 0, is_exact: true, runs: [] },
        failed: { count: 0, is_exact: true, runs: [] },
        next_due: [],
        unread_messages: { count: 0, is_exact: true },
      };
      expect(await overviewOf(team.id)).toMatchObject({ slug: 'overview-team', type: 'team', role: 'owner', ...empty });
      expect(await overviewOf(user.workspaceId)).toMatchObject({ slug: 'overview-user', type: 'personal', ...empty });
      expect(
        expectOk(await request(target(), 'GET', '/users/me/overview', { key: outsider.key })).workspaces,
      ).toMatchObject([{ slug: 'overview-outsider' }]);
    });

    test('a key of one workspace sees that one alone', async () => {
      const json = { name: 'of the team', workspace_id: team.id, scope: 'read' };
      const { key } = expectOk(await send('POST', '/api-keys', { json }), 201);
      const { workspaces } = expectOk(await send('GET', '/users/me/overview', { key }));
      expect(workspaces.map(({ id }: { id: string }) => id)).toEqual([team.id]);
    });

    test('counts messages until they are seen, by each member', async () => {
      const message = (title: string) => send('POST', '/messages', { json: { title, body: 'x' }, headers: asTeam() });
      const first = expectOk(await message('one'), 201);
      await expect.poll(async () => (await overviewOf(team.id)).unread_messages.count).toBe(1);
      const seen = (until: string) => send('PUT', inTeam('/messages/seen'), { json: { until } });
      expect(expectOk(await seen(first.created_at))).toEqual({ seen_until: first.created_at });
      await expect.poll(async () => (await overviewOf(team.id)).unread_messages.count).toBe(0);
      const second = expectOk(await message('two'), 201);
      await expect
        .poll(async () => (await overviewOf(team.id)).unread_messages)
        .toMatchObject({ count: 1, is_exact: true });
      // Seen events stay seen, and future events are not marked as seen.
      expect(expectOk(await seen('2020-01-01T00:00:00Z'))).toEqual({ seen_until: first.created_at });
      const { seen_until } = expectOk(await seen('2099-01-01T00:00:00Z'));
      expect(seen_until >= second.created_at).toBe(true);
      expect(seen_until < '2099').toBe(true);
      expectError(await seen('yesterday'), 400, 'INVALID_INPUT', 'until');
      const foreign = await send('PUT', inTeam('/messages/seen'), { key: outsider.key, json: { until: seen_until } });
      expectError(foreign, 403, 'FORBIDDEN');
    });

    test('a run that there is not is not found', async () => {
      for (const prefix of ['0123456789abcdef', '012345', 'xyz', '%00']) {
        expectError(await send('GET', `/users/me/runs/${prefix}`), 404, 'NOT_FOUND');
      }
    });

    test.runIf(hasSandbox)(
      'shows what runs, what failed and what is due; runs are found in every workspace',
      async () => {
        const client = clientOf(target(), user.key, team.id);
        const runtime = { command: 'bash main.sh' };
        const script = 'read -r input\ncase "$input" in *fail*) exit 3 ;; esac\nsleep 60\n';
        await publishCode(client, 'worker', { 'main.sh': script }, { runtime });
        const schedule = { agent: 'worker', cron_expression: '0 0 1 1 *' };
        const { id } = expectOk(await send('POST', inTeam('/schedules'), { json: schedule }), 201).schedule;
        const call = (json: object, headers = {}) =>
          send('POST', `/${team.slug}/worker/v1/run`, { json, headers: { ...asTeam(), ...headers } });
        const failed = (await call({ text: 'fail' })).headers.get('x-run-id')!;
        const { run_id: open } = expectOk(await call({ text: 'wait' }, { prefer: 'respond-async' }), 202);
        await expect
          .poll(() => overviewOf(team.id))
          .toMatchObject({
            running: { count: 1, runs: [{ id: open, agent_name: 'worker', trigger_source: 'api' }] },
            failed: { count: 1, runs: [{ id: failed, agent_version: 'v1', status: 'failed' }] },
            next_due: [{ schedule_id: id, agent_name: 'worker', at: expect.stringMatching(/-01-01T00:00:00/) }],
          });
        for (const name of [open, open.slice(0, 8), `req_${open.replaceAll('-', '').slice(0, 12)}`]) {
          expect(expectOk(await send('GET', `/users/me/runs/${name}`)).runs).toMatchObject([
            { id: open, status: 'running', workspace: { id: team.id, slug: team.slug } },
          ]);
        }
        expectError(await send('GET', `/users/me/runs/${open}`, { key: outsider.key }), 404, 'NOT_FOUND');
        expectOk(await send('DELETE', inTeam(`/runs/${open}`)));
        await expect.poll(async () => (await overviewOf(team.id)).running.count).toBe(0);
      },
    );
  });
}
