import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';

/** Scores of runs, their lists and their series (`docs/interface/scores.md`). */
export function scoresSuite(target: () => Target): void {
  let user: TestUser;
  let other: TestUser;

  const api = (method: string, path: string, json?: unknown, { key, workspaceId } = user) =>
    request(target(), method, `/workspaces/${workspaceId}${path}`, { key, json });
  const score = (runId: string, json: object) => api('POST', `/runs/${runId}/scores`, json);
  const series = async (query = '') => expectOk(await api('GET', `/scores/series?agent=scores/rated${query}`));

  async function run(agent = 'rated', headers: Record<string, string> = {}): Promise<string> {
    const answer = await request(target(), 'POST', `/scores/${agent}/v1/run`, { key: user.key, json: {}, headers });
    expectOk(answer);
    return answer.headers.get('x-run-id')!;
  }
  const publish = async (name: string, manifest: object = {}) =>
    expectOk(
      await request(target(), 'POST', '/agents', {
        key: user.key,
        json: {
          name,
          type: 'prompt',
          description: name,
          prompt: 'Hello',
          supported_providers: ['anthropic'],
          ...manifest,
        },
      }),
      201,
    );

  beforeAll(async () => {
    needsModel(target());
    [user, other] = await Promise.all([target().addUser('scores'), target().addUser('scores-other')]);
    expectOk(await api('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scores-0123456789' }));
    for (const name of ['rated', 'summed', 'paged', 'crowd', 'talks']) await publish(name);
  });

  describe('scores', () => {
    test('a score is given, shown, replaced and deleted', async () => {
      const id = await run();
      const made = expectOk(await score(id, { name: 'helpful', value: 0.5, comment: 'Half of it.' }), 201);
      expect(made).toEqual({
        name: 'helpful',
        source: 'api',
        value: 0.5,
        label: null,
        comment: 'Half of it.',
        created_by: user.userId,
        created_at: expect.stringMatching(ISO_TIME),
        updated_at: made.created_at,
      });
      const tone = expectOk(await score(id, { name: 'tone', source: 'reviewer', label: 'Too short' }), 201);
      expect(tone).toMatchObject({ source: 'reviewer', value: null, label: 'Too short', comment: null });
      expect(expectOk(await api('GET', `/runs/${id.slice(0, 8)}/scores`))).toEqual({
        run_id: id,
        scores: [made, tone],
      });

      const again = expectOk(await score(id, { name: 'helpful', value: 1 }), 201);
      expect(again).toMatchObject({ value: 1, comment: null, created_at: made.created_at });
      const ofUser = expectOk(await score(id, { name: 'helpful', source: 'user', value: 0 }), 201);
      expect(expectOk(await api('GET', `/runs/${id}/scores`)).scores).toEqual([again, tone, ofUser]);

      const gone = { deleted: true, name: 'helpful', source: 'user' };
      expect(expectOk(await api('DELETE', `/runs/${id}/scores/helpful?source=user`))).toEqual(gone);
      expectError(
        await api('DELETE', `/runs/${id}/scores/helpful?source=user`),
        404,
        'NOT_FOUND',
        'no score "helpful"',
      );
      expect(expectOk(await api('GET', `/runs/${id}/scores`)).scores).toEqual([again, tone]);
    });

    test('a wrong score is refused by the member that is wrong', async () => {
      const id = await run();
      for (const [body, member] of [
        [{ name: 'helpful' }, 'value'],
        [{ name: 'helpful', value: 1, label: 'good' }, 'value'],
        [{ name: 'Helpful', value: 1 }, 'name'],
        [{ name: 'a#b', value: 1 }, 'name'],
        [{ value: 1 }, 'name'],
        [{ name: 'helpful', value: 1_000_001 }, 'value'],
        [{ name: 'helpful', value: '1' }, 'value'],
        [{ name: 'helpful', label: 'a#b' }, 'label'],
        [{ name: 'helpful', label: '' }, 'label'],
        [{ name: 'helpful', label: 'a\nb' }, 'label'],
        [{ name: 'helpful', value: 1, comment: 'x'.repeat(2001) }, 'comment'],
        [{ name: 'helpful', value: 1, source: 'A judge' }, 'source'],
        [{ name: 'helpful', value: 1, color: 'red' }, 'color'],
      ] as const) {
        expectError(await score(id, body), 400, 'INVALID_INPUT', member);
      }
      expectError(await score('ffffffff-0000-4000-8000-000000000000', { name: 'x', value: 1 }), 404, 'NOT_FOUND');
      expect(expectOk(await api('GET', `/runs/${id}/scores`)).scores).toEqual([]);
    });

    test('runs of others can neither be scored nor read', async () => {
      const id = await run();
      expectOk(await score(id, { name: 'helpful', value: 1 }), 201);
      const paths = [`/runs/${id}/scores`, '/scores?agent=scores/rated', '/scores/series?agent=scores/rated'];
      for (const path of paths)
        expectError(await api('GET', path, undefined, { ...other, workspaceId: user.workspaceId }), 403, 'FORBIDDEN');
      // By the routes of their own workspace, they find nothing.
      expectError(await api('GET', `/runs/${id}/scores`, undefined, other), 404, 'NOT_FOUND');
      expectError(await api('POST', `/runs/${id}/scores`, { name: 'helpful', value: 0 }, other), 404, 'NOT_FOUND');
      expectError(await api('DELETE', `/runs/${id}/scores/helpful`, undefined, other), 404, 'NOT_FOUND');
      expect(expectOk(await api('GET', '/scores?agent=scores/rated', undefined, other)).runs).toEqual([]);
      expect(expectOk(await api('GET', '/scores/series?agent=scores/rated', undefined, other)).points).toEqual([]);
    });

    test('a key with the scope run gives scores, one that reads does not', async () => {
      const id = await run();
      const keyOf = async (scope: string) => {
        const json = { name: scope, scope };
        return expectOk(await request(target(), 'POST', '/api-keys', { key: user.key, json }), 201).key as string;
      };
      const body = { name: 'helpful', value: 1 };
      expectOk(await api('POST', `/runs/${id}/scores`, body, { ...user, key: await keyOf('run') }), 201);
      const reader = { ...user, key: await keyOf('read') };
      expectError(await api('POST', `/runs/${id}/scores`, body, reader), 403, 'FORBIDDEN');
      expectError(await api('DELETE', `/runs/${id}/scores/helpful`, undefined, reader), 403, 'FORBIDDEN');
      expect(expectOk(await api('GET', `/runs/${id}/scores`, undefined, reader)).scores).toHaveLength(1);
    });

    test('a list has the runs whose scores match, the newest first, in pages', async () => {
      const ids: string[] = [];
      for (const value of [0.1, 0.2, 0.3]) {
        const id = await run('paged');
        ids.unshift(id);
        expectOk(await score(id, { name: 'helpful', value }), 201);
        expectOk(await score(id, { name: 'tone', source: 'judge', label: value < 0.25 ? 'rude' : 'kind' }), 201);
      }
      const list = async (query: string) => expectOk(await api('GET', `/scores?agent=scores/paged${query}`));
      const idsOf = ({ runs }: { runs: { run_id: string }[] }) => runs.map(({ run_id }) => run_id);
      await expect.poll(async () => idsOf(await list(''))).toEqual(ids);
      expect((await list('')).runs[0]).toEqual({
        run_id: ids[0],
        agent_version: 'v1',
        started_at: expect.stringMatching(ISO_TIME),
        scores: [expect.objectContaining({ value: 0.3 }), expect.objectContaining({ label: 'kind' })],
      });
      expect(idsOf(await list('&max=0.2'))).toEqual(ids.slice(1));
      expect(idsOf(await list('&min=0.2&max=0.2'))).toEqual([ids[1]]);
      expect((await list('&name=tone&label=kind')).runs).toEqual([
        expect.objectContaining({ run_id: ids[0], scores: [expect.objectContaining({ name: 'tone' })] }),
      ]);
      expect(idsOf(await list('&source=judge&version=v1'))).toEqual(ids);
      expect(await list('&version=v2')).toEqual({ runs: [], next_cursor: null });

      const first = await list('&limit=2');
      expect(idsOf(first)).toEqual(ids.slice(0, 2));
      const rest = await list(`&limit=2&cursor=${first.next_cursor}`);
      expect(idsOf(rest)).toEqual(ids.slice(2));
      expect(rest.next_cursor).toBeNull();
      const wrong = `/scores?agent=scores/paged&max=0.2&cursor=${first.next_cursor}`;
      expectError(await api('GET', wrong), 400, 'INVALID_INPUT', 'query.cursor');
      expectError(await api('GET', '/scores?agent=paged'), 400, 'INVALID_INPUT', 'query.agent');

      // A run whose last score is deleted is in no list.
      for (const path of ['helpful', 'tone?source=judge'])
        expectOk(await api('DELETE', `/runs/${ids[0]}/scores/${path}`));
      await expect.poll(async () => idsOf(await list(''))).toEqual(ids.slice(1));
    });

    test('a series follows each change of a score', async () => {
      const of = async () =>
        expectOk(await api('GET', '/scores/series?agent=scores/summed')).points.map(
          ({ name, source, count, mean, labels }: Record<string, unknown>) => [name, source, count, mean, labels],
        );
      const [one, two] = [await run('summed'), await run('summed')];
      expectOk(await score(one, { name: 'helpful', value: 0.1 }), 201);
      expectOk(await score(two, { name: 'helpful', value: 0.2 }), 201);
      expect(await of()).toEqual([['helpful', 'api', 2, 0.15, []]]);
      expectOk(await score(two, { name: 'helpful', value: 0.7 }), 201);
      expect(await of()).toEqual([['helpful', 'api', 2, 0.4, []]]);
      expectOk(await score(one, { name: 'tone', label: 'kind' }), 201);
      expectOk(await score(two, { name: 'tone', label: 'rude' }), 201);
      expectOk(await score(two, { name: 'tone', label: 'kind' }), 201);
      expect(await of()).toEqual([
        ['helpful', 'api', 2, 0.4, []],
        ['tone', 'api', 2, null, [{ label: 'kind', count: 2 }]],
      ]);
      // A number in the place of a label.
      expectOk(await score(two, { name: 'tone', value: 3 }), 201);
      expectOk(await api('DELETE', `/runs/${two}/scores/helpful`));
      expect(await of()).toEqual([
        ['helpful', 'api', 1, 0.1, []],
        ['tone', 'api', 2, 3, [{ label: 'kind', count: 1 }]],
      ]);
      const today = new Date().toISOString().slice(0, 10);
      const named = expectOk(await api('GET', '/scores/series?agent=scores/summed&name=tone&source=api'));
      expect(named.to >= today).toBe(true);
      expect(named).toMatchObject({ is_complete: true, points: [{ name: 'tone', version: 'v1' }] });
      expect(expectOk(await api('GET', '/scores/series?agent=scores/summed&to=2020-02-01')).points).toEqual([]);
    });

    test('a series has at most 367 days', async () => {
      expect(await series('&from=2024-01-01&to=2025-01-01')).toMatchObject({ from: '2024-01-01', to: '2025-01-01' });
      for (const [query, words] of [
        ['from=2024-01-01&to=2025-01-02', 'at most 366 days before'],
        ['from=2024-01-02&to=2024-01-01', 'must not be after to'],
        ['from=yesterday', 'query.from'],
      ] as const) {
        expectError(await api('GET', `/scores/series?agent=scores/rated&${query}`), 400, 'INVALID_INPUT', words);
      }
    });

    test('scores at the same time are all kept and all summed, and no run has more than 50', async () => {
      const id = await run('crowd');
      const given = await Promise.all(
        Array.from({ length: 20 }, (_, n) => score(id, { name: `n${n % 10}`, value: n < 10 ? 1 : 2 })),
      );
      for (const answer of given) expectOk(answer, 201);
      const { scores } = expectOk(await api('GET', `/runs/${id}/scores`));
      expect(scores.map(({ name }: { name: string }) => name).sort()).toEqual(
        Array.from({ length: 10 }, (_, n) => `n${n}`),
      );
      const { points } = expectOk(await api('GET', '/scores/series?agent=scores/crowd'));
      const stored = new Map(scores.map(({ name, value }: { name: string; value: number }) => [name, value]));
      expect(new Map(points.map(({ name, mean }: { name: string; mean: number }) => [name, mean]))).toEqual(stored);

      for (let n = 10; n < 50; n++) expectOk(await score(id, { name: `n${n}`, value: 1 }), 201);
      expectError(await score(id, { name: 'more', value: 1 }), 409, 'CONFLICT', 'has 50 scores');
      expectOk(await score(id, { name: 'n49', value: 2 }), 201);
    });

    test('what is erased with a session has no comments', async () => {
      const id = await run('talks', { 'X-Platform-Session': 'scored' });
      expectOk(await score(id, { name: 'helpful', value: 1, comment: 'Ann was happy.' }), 201);
      const { session_id } = expectOk(await api('GET', `/runs/${id}`));
      expectOk(await api('DELETE', `/sessions/${session_id}`));
      await expect
        .poll(async () => expectOk(await api('GET', `/runs/${id}/scores`)).scores)
        .toMatchObject([{ value: 1, comment: null }]);
      expectError(await score(id, { name: 'tone', value: 1, comment: 'x' }), 409, 'CONFLICT', 'was erased');
      expectOk(await score(id, { name: 'tone', value: 1 }), 201);
    });
  });
}
