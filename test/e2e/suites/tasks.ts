import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

/** Tasks; `test/sdk` tests access from inside sandboxes. */
export function tasksSuite(target: () => Target): void {
  async function setUp(slug: string) {
    const user = await target().addUser(slug);
    const call = (method: string, path = '', json?: unknown, key = user.key) =>
      request(target(), method, `/tasks${path}`, { key, json });
    const create = async (json: object) => expectOk(await call('POST', '', json), 201);
    const titles = async (query: string) => {
      const { tasks, total } = expectOk(await call('GET', query));
      return [tasks.map(({ title }: { title: string }) => title), total];
    };
    return { user, call, create, titles };
  }
  const day = (offset: number) => new Date(Date.now() + offset * 24 * 3600_000).toISOString().slice(0, 10);

  describe.concurrent('tasks', () => {
    test('are created, shown, changed and deleted', async () => {
      const { call, create } = await setUp('task-life');
      const created = await create({ title: '  Renew the contract ', due_date: '2032-02-29', project: 'legal' });
      expect(created).toEqual({
        id: expect.stringMatching(UUID),
        title: 'Renew the contract',
        description: null,
        due_date: '2032-02-29',
        project: 'legal',
        priority: 'normal',
        status: 'open',
        created_by: 'task-life@example.com',
        created_at: expect.stringMatching(ISO_TIME),
        completed_at: null,
      });
      const path = `/${created.id}`;
      expect(expectOk(await call('GET', path))).toEqual(created);
      const changes = { description: '**now**', due_date: null, project: null, priority: 'urgent' };
      expect(expectOk(await call('PATCH', path, changes))).toEqual({ ...created, ...changes });
      expect(expectOk(await call('PATCH', path, {}))).toEqual({ ...created, ...changes });
      // Some clients send null for fields that the user omitted.
      const cleared = { ...changes, priority: null, status: null };
      expect(expectOk(await call('PATCH', path, cleared))).toEqual({ ...created, ...changes, priority: 'normal' });
      expectError(await call('PATCH', path, { title: null }), 400, 'INVALID_INPUT', 'title');
      const { id } = await create({ title: 'x', description: null, priority: null, status: null, project: null });
      expect(expectOk(await call('DELETE', `/${id}`))).toEqual({ deleted: true, id });
      expect(expectOk(await call('DELETE', path))).toEqual({ deleted: true, id: created.id });
      for (const [method, json] of [['GET'], ['PATCH', {}], ['DELETE']] as const) {
        expectError(await call(method, path, json), 404, 'NOT_FOUND', created.id);
      }
      expect(expectOk(await call('GET'))).toEqual({ tasks: [], total: 0 });
      expectError(await request(target(), 'GET', '/tasks'), 401, 'UNAUTHORIZED');
    });

    test('record when they were completed', async () => {
      const { call, create } = await setUp('task-done');
      const { id, completed_at } = await create({ title: 'done already', status: 'done' });
      expect(completed_at).toMatch(ISO_TIME);
      const turn = async (status: string) => expectOk(await call('PATCH', `/${id}`, { status })).completed_at;
      expect(await turn('done')).toBe(completed_at);
      expect(await turn('cancelled')).toBe(completed_at);
      expect(await turn('in_progress')).toBeNull();
      expect(await turn('cancelled')).toBeNull();
      expect(await turn('done')).toMatch(ISO_TIME);
      expect(await turn('open')).toBeNull();
    });

    test('are listed by urgency, paged and filtered', async () => {
      const { create, titles } = await setUp('task-lists');
      await create({ title: 'a', priority: 'low' });
      await create({ title: 'b', priority: 'high', project: 'x', due_date: day(30) });
      await create({ title: 'c', priority: 'high', project: 'x', due_date: day(-2) });
      await create({ title: 'd', status: 'in_progress', project: 'x', due_date: day(-3) });
      await create({ title: 'e', status: 'done', priority: 'urgent', due_date: day(-3) });
      await create({ title: 'f', due_date: day(-400) });
      await create({ title: 'g', project: 'y', status: 'cancelled' });
      for (const [query, expected, total] of [
        ['', 'cbfadeg', 7],
        ['?limit=3', 'cbf', 7],
        ['?limit=3&offset=2', 'fad', 7],
        ['?offset=7', '', 7],
        ['?status=open', 'cbfa', 4],
        ['?status=open&limit=1&offset=1', 'b', 4],
        ['?project=x', 'cbd', 3],
        ['?project=x&priority=high&status=open', 'cb', 2],
        ['?priority=urgent', 'e', 1],
        ['?project=nobody', '', 0],
        ['?overdue=true', 'cf', 2],
        ['?overdue=true&limit=1', 'c', 2],
        ['?overdue=true&project=x', 'c', 1],
        ['?overdue=true&priority=normal', 'f', 1],
        ['?overdue=true&status=in_progress', '', 0],
        ['?overdue=false', 'cbfadeg', 7],
      ] as const) {
        expect(await titles(query), query).toEqual([[...expected], total]);
      }
    });

    test("of a workspace are also under the workspace's own path, and members may change them", async () => {
      const { user, create } = await setUp('task-scopes');
      const task = await create({ title: 'shared' });
      const member = await target().addUser('task-member');
      await target().addMember(member, user.workspaceId);
      const headers = { 'X-Workspace-Id': user.workspaceId };
      const listed = expectOk(
        await request(target(), 'GET', `/workspaces/${user.workspaceId}/tasks?status=open`, { key: member.key }),
      );
      expect(listed).toEqual({ tasks: [task], total: 1 });
      const changed = await request(target(), 'PATCH', `/tasks/${task.id}`, {
        key: member.key,
        headers,
        json: { status: 'done' },
      });
      expect(expectOk(changed)).toMatchObject({ status: 'done', created_by: 'task-scopes@example.com' });
      // The member's own workspace has no such task.
      expectError(await request(target(), 'GET', `/tasks/${task.id}`, { key: member.key }), 404, 'NOT_FOUND');
      const stranger = await target().addUser('task-stranger');
      expectError(
        await request(target(), 'GET', `/workspaces/${user.workspaceId}/tasks`, { key: stranger.key }),
        403,
        'FORBIDDEN',
      );
    });

    test('that are created concurrently are all kept', async () => {
      const { create, titles } = await setUp('task-at-once');
      const all = Array.from({ length: 20 }, (_, n) => String(n));
      await Promise.all(all.map((title) => create({ title, project: 'x', due_date: day(-1) })));
      for (const query of ['', '?project=x', '?overdue=true&project=x']) {
        const [found, total] = await titles(query);
        expect([found.toSorted(), total]).toEqual([all.toSorted(), 20]);
      }
    });

    test('made by an agent carry its name', async () => {
      const { user } = await setUp('task-agent');
      const made = expectOk(
        await request(target(), 'POST', '/agents', {
          key: user.key,
          json: { name: 'planner', type: 'prompt', description: 'plans', prompt: 'Plan.' },
        }),
        201,
      );
      const issued = expectOk(await request(target(), 'POST', `/agents/${made.agent.id}/keys`, { key: user.key }), 201);
      const created = await request(target(), 'POST', '/tasks', { key: issued.key, json: { title: 'from outside' } });
      expect(expectOk(created, 201).created_by).toBe('planner');
      const path = `/workspaces/${user.workspaceId}/tasks`;
      expect(expectOk(await request(target(), 'GET', path, { key: issued.key })).total).toBe(1);
      const other = await target().addUser('task-agent-other');
      expectError(
        await request(target(), 'GET', `/workspaces/${other.workspaceId}/tasks`, { key: issued.key }),
        403,
        'FORBIDDEN',
      );
    });

    test.each([
      [{}, 'body.title: '],
      [{ title: '  ' }, 'body.title: must not be empty'],
      [{ title: 'x'.repeat(501) }, 'body.title: must be at most 500'],
      [{ title: 'x', due_date: '2026-02-30' }, 'body.due_date: must be a date of the form YYYY-MM-DD'],
      [{ title: 'x', due_date: '1999-12-31' }, 'body.due_date: must be a date of the years'],
      [{ title: 'x', due_date: 'tomorrow' }, 'body.due_date: '],
      [{ title: 'x', project: '' }, 'body.project: must not be empty'],
      [{ title: 'x', priority: 'highest' }, 'body.priority: '],
      [{ title: 'x', status: 'closed' }, 'body.status: '],
      [{ title: 'x', description: 'x'.repeat(10_001) }, 'body.description: '],
    ])('are refused like this: %j', async (json, message) => {
      const { call } = await setUp(`task-bad-${Math.random().toString(36).slice(2)}`);
      expectError(await call('POST', '', json), 400, 'INVALID_INPUT', message);
    });

    test.each(['limit=0', 'limit=201', 'offset=-1', 'status=closed', 'priority=1', 'overdue=perhaps', 'project='])(
      'are not listed by %s',
      async (query) => {
        const { call } = await setUp(`task-query-${Math.random().toString(36).slice(2)}`);
        expectError(await call('GET', `?${query}`), 400, 'INVALID_INPUT', `query.${query.split('=')[0]}: `);
      },
    );
  });
}
