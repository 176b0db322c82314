import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';
import type { Languages } from '../languages.ts';

const SLOW = `read -r input
echo started >&2
case "$input" in *slow*) sleep 60 ;; esac
echo '{"ok": true}'
`;

/** Records of runs: list, read, cancel and replay. */
export function runsSuite(target: () => Target, { python, node }: Languages): void {
  const hasSandbox = python || node;
  describe('records of runs', () => {
    let client: Client;
    let workspaceId: string;
    let outsider: TestUser;
    let agentId: string;
    const api = (method: string, path: string, key = target().key) =>
      request(target(), method, `/workspaces/${workspaceId}${path}`, { key });

    beforeAll(async () => {
      client = clientOf(target());
      const { workspaces } = await client.listWorkspaces({});
      workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
      outsider = await target().addUser('run-outsider');
      if (!hasSandbox) return;
      const { agent } = await publishCode(
        client,
        'recorded',
        { 'main.sh': SLOW },
        { runtime: { command: 'bash main.sh' } },
      );
      agentId = agent.id;
    });

    test('unknown runs and runs of other workspaces are not found', async () => {
      const unknown = '0123456789abcdef';
      for (const path of ['', '/logs', '/dag', '/trace']) {
        expectError(await api('GET', `/runs/${unknown}${path}`), 404, 'NOT_FOUND', unknown);
        expectError(await api('GET', `/runs/${unknown}${path}`, outsider.key), 403, 'FORBIDDEN');
      }
      expectError(await api('GET', '/runs/xyz'), 404, 'NOT_FOUND', 'first 7 or more digits');
      expectError(await api('GET', '/runs/012345'), 404, 'NOT_FOUND');
      expectError(await api('DELETE', `/runs/${unknown}`), 404, 'NOT_FOUND');
      expectError(await api('POST', `/runs/${unknown}/cancel`), 404, 'NOT_FOUND');
      expectError(await api('POST', `/runs/${unknown}/replay`), 404, 'NOT_FOUND');
      expectError(await api('GET', '/runs?limit=201'), 400, 'INVALID_INPUT', 'limit');
      expectError(await api('GET', '/runs?run_id_prefix=0123'), 400, 'INVALID_INPUT', '7 or more');
      expectError(await api('GET', '/runs?run_id_prefix=-------'), 400, 'INVALID_INPUT', '7 or more');
      expectError(await api('GET', '/runs?status=done'), 400, 'INVALID_INPUT', 'status');
      for (const bad of ['from=yesterday', 'from=2026-11-21', 'schedule_id=x', 'top_level=perhaps', 'version=v%201']) {
        expectError(await api('GET', `/runs?${bad}`), 400, 'INVALID_INPUT', bad.split('=')[0]);
      }
      const backwards = 'from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00%2B02:00';
      expectError(await api('GET', `/runs?${backwards}`), 400, 'INVALID_INPUT', 'from: must be before to');
      expectError(await api('GET', '/runs?cursor=x&offset=1'), 400, 'INVALID_INPUT', 'offset');
      expectError(await api('GET', '/runs?cursor=x&run_id_prefix=0123456'), 400, 'INVALID_INPUT', 'cursor');
      for (const bad of ['x', '%00', 'e30', 'y'.repeat(401)]) {
        expectError(await api('GET', `/runs?cursor=${bad}`), 400, 'INVALID_INPUT', 'cursor');
      }
    });

    describe('of prompts', () => {
      let author: TestUser;
      const send = (method: string, path: string, options: Parameters<typeof request>[3] = {}) =>
        request(target(), method, path, { key: author.key, ...options });
      const ofAuthor = (path: string) => `/workspaces/${author.workspaceId}${path}`;
      const ask = (json: unknown, headers: Record<string, string> = {}) =>
        send('POST', '/run-author/asker/v1/run', { json, headers });
      const runOf = async (id: string) => expectOk(await send('GET', ofAuthor(`/runs/${id}`)));
      const requestsWith = (text: string) => target().llm.requests.filter((each) => each.text.includes(text)).length;

      beforeAll(async () => {
        needsModel(target());
        author = await target().addUser('run-author');
        const secret = { name: 'ANTHROPIC_API_KEY', value: `sk-runs-${author.userId}` };
        expectOk(await send('PUT', ofAuthor('/secrets'), { json: secret }));
        await clientOf(target(), author.key).createAgent({
          body: {
            name: 'asker',
            type: 'prompt',
            description: 'x',
            prompt: 'Answer {{text}}.',
            supported_providers: ['anthropic'],
          },
        });
      });

      test('are listed, found and traced', async () => {
        const answers = [await ask({ text: 'one' }), await ask({ text: '[[llm {"status":400}]]' })];
        const [good, bad] = answers.map(({ headers }) => headers.get('x-run-id')!);
        const list = async (query: string) => expectOk(await send('GET', ofAuthor(`/runs?${query}`)));
        // Indexes of the deployed tables are eventually consistent.
        await expect.poll(() => list('')).toMatchObject({ total: 2, runs: [{ id: bad }, { id: good }] });
        await expect
          .poll(() => list('status=failed'))
          .toMatchObject({ total: 1, runs: [{ id: bad, status: 'failed' }] });
        expect(await list(`run_id_prefix=req_${good!.slice(0, 8)}`)).toMatchObject({ total: 1, runs: [{ id: good }] });
        expect(await runOf(good!.slice(0, 8))).toMatchObject({
          id: good,
          llm_provider: 'anthropic',
          input_data: { text: 'one' },
        });
        const page = await list('limit=1');
        expect(page).toMatchObject({ total: 2, total_is_exact: true, runs: [{ id: bad }] });
        const next = await list(`limit=1&cursor=${page.next_cursor}`);
        expect(next).toMatchObject({ total: 2, next_cursor: null, runs: [{ id: good }] });
        expect(await list('agent_name=asker&version=1&trigger_source=api&top_level=true')).toMatchObject({ total: 2 });
        const start = next.runs[0].started_at;
        expect(await list(`to=${start}`)).toMatchObject({ total: 0, runs: [] });
        expect((await list(`from=${start}`)).runs.at(-1)).toMatchObject({ id: good });
        expectError(
          await api('GET', `/runs?limit=1&cursor=${page.next_cursor}`),
          400,
          'INVALID_INPUT',
          'not a cursor of this listing',
        );
        const { trace } = expectOk(await send('GET', ofAuthor(`/runs/${good}/trace`)));
        const events = async (query: string) =>
          expectOk(await send('GET', ofAuthor(`/traces/${trace.id}/events?${query}`)));
        const all = await events('');
        expect(all.events.map(({ event_type: type }: { event_type: string }) => type)).toEqual([
          'llm_call_started',
          'llm_call_succeeded',
        ]);
        expect(all).toMatchObject({ total: 2, next_cursor: null });
        const first = await events('limit=1');
        expect(first).toMatchObject({ total: 2, next_cursor: '1', events: [all.events[0]] });
        expect(await events('limit=1&cursor=1')).toMatchObject({ next_cursor: null, events: [all.events[1]] });
      });

      test('of any size are kept and can be replayed', async () => {
        const input = { text: 'large', more: 'x'.repeat(200_000) };
        const id = (await ask(input)).headers.get('x-run-id')!;
        expect((await runOf(id)).input_data).toEqual(input);
        expectError(await send('GET', ofAuthor(`/runs/${id}/dag`)), 404, 'NOT_FOUND', 'called no other agent');
        const { run_id: again } = expectOk(await send('POST', ofAuthor(`/runs/${id}/replay`)), 202);
        await expect.poll(() => runOf(again)).toMatchObject({ status: 'completed', input_data: input });
      });

      test('wait for their time, and are cancelled at once', async () => {
        const later = { prefer: 'respond-async', 'x-platform-delay-seconds': '3600' };
        const accepted = await ask({ text: 'later' }, later);
        const { run_id: id, run_at } = expectOk(accepted, 202);
        expect(run_at).toMatch(ISO_TIME);
        expect(await runOf(id)).toMatchObject({ status: 'queued', started_at: null, run_at });
        const queued = async () => expectOk(await send('GET', ofAuthor('/runs?status=queued'))).runs;
        await expect.poll(queued).toMatchObject([{ id, run_at }]);
        expectError(await api('DELETE', `/runs/${id}`), 404, 'NOT_FOUND');
        expect(expectOk(await send('DELETE', ofAuthor(`/runs/${id}`)))).toMatchObject({
          status: 'cancelled',
          duration_ms: 0,
          input_data: { text: 'later' },
        });
        expectError(await ask({ text: 'late' }, { ...later, prefer: 'wait=5' }), 400, 'INVALID_INPUT', 'delay-seconds');
      });

      test('end when they are cancelled, and so does the request to the model', async () => {
        const text = `hold on ${crypto.randomUUID()}`;
        const input = { text: `${text} [[llm {"hang":true}]]` };
        const { run_id: id } = expectOk(await ask(input, { prefer: 'respond-async' }), 202);
        await expect.poll(() => requestsWith(text)).toBe(1);
        expect(expectOk(await send('DELETE', ofAuthor(`/runs/${id}`)))).toMatchObject({
          status: 'cancelled',
          error_code: 'RUN_CANCELLED',
        });
        expect(requestsWith(text)).toBe(1);
        const { run_id: again } = expectOk(await send('POST', ofAuthor(`/runs/${id}/replay`)), 202);
        await expect.poll(() => requestsWith(text)).toBe(2);
        expectOk(await send('POST', ofAuthor(`/runs/${again}/cancel`)));
        expect(await runOf(again)).toMatchObject({ status: 'cancelled', replay_of_run_id: id, input_data: input });
      });
    });

    describe('of bulk actions', () => {
      let author: TestUser;
      const send = (method: string, path: string, options: Parameters<typeof request>[3] = {}) =>
        request(target(), method, `/workspaces/${author.workspaceId}${path}`, { key: author.key, ...options });
      const ask = async (json: unknown, headers: Record<string, string> = {}) => {
        const answer = await request(target(), 'POST', '/bulk-author/bulky/v1/run', { key: author.key, json, headers });
        return answer.headers.get('x-run-id')!;
      };
      const bulk = async (id: string) => {
        await target().passMinute?.();
        return expectOk(await send('GET', `/bulk/${id}`));
      };
      // A deployed platform polls for bulk actions once a minute.
      const untilEnded = { timeout: 150_000, interval: 500 };

      beforeAll(async () => {
        needsModel(target());
        author = await target().addUser('bulk-author');
        const secret = { name: 'ANTHROPIC_API_KEY', value: `sk-bulk-${author.userId}` };
        expectOk(await send('PUT', '/secrets', { json: secret }));
        const body = { name: 'bulky', type: 'prompt', description: 'x', supported_providers: ['anthropic'] } as const;
        const other = clientOf(target(), author.key);
        await other.createAgent({ body: { ...body, prompt: 'Answer {{text}}.' } });
        await other.createAgent({ body: { ...body, prompt: 'Answer again {{text}}.' } });
      });

      test('failed runs are repeated by filter, with another version, each once', { timeout: 180_000 }, async () => {
        const text = '[[llm {"status":400}]]';
        const failed = [await ask({ text }), await ask({ text })];
        await ask({ text: 'good' });
        const order = { action: 'replay', filter: { agent_name: 'bulky', status: 'failed' }, agent_version: 'v2' };
        const preview = async () => expectOk(await send('POST', '/bulk', { json: { ...order, dry_run: true } }));
        await expect.poll(preview).toMatchObject({ total: 2, total_is_exact: true, dry_run: true });
        const { id, total } = expectOk(await send('POST', '/bulk', { json: order }), 202);
        expect(total).toBe(2);
        await expect.poll(() => bulk(id), untilEnded).toMatchObject({ status: 'completed', done: 2, failed: 0 });
        const list = async () => expectOk(await send('GET', '/runs?trigger_source=replay&version=v2'));
        await expect.poll(list).toMatchObject({ total: 2 });
        for (const run of (await list()).runs) {
          const { replay_of_run_id: of, input_data } = expectOk(await send('GET', `/runs/${run.id}`));
          expect(failed).toContain(of);
          expect(input_data).toEqual({ text });
        }
      });

      test('running runs are cancelled by their ids', { timeout: 180_000 }, async () => {
        const text = `hold on ${crypto.randomUUID()} [[llm {"hang":true}]]`;
        const ids = [
          await ask({ text }, { prefer: 'respond-async' }),
          await ask({ text }, { prefer: 'respond-async' }),
        ];
        const { id } = expectOk(await send('POST', '/bulk', { json: { action: 'cancel', run_ids: ids } }), 202);
        await expect.poll(() => bulk(id), untilEnded).toMatchObject({ status: 'completed', done: 2 });
        const statuses = async () =>
          Promise.all(ids.map(async (run) => expectOk(await send('GET', `/runs/${run}`)).status));
        await expect.poll(statuses).toEqual(['cancelled', 'cancelled']);
      });

      test('runs of other workspaces, other members and unclear orders are refused', async () => {
        const id = await ask({ text: 'mine' });
        const foreign = { action: 'replay', run_ids: [id] };
        const path = `/workspaces/${outsider.workspaceId}/bulk`;
        const asOutsider = (json: unknown) => request(target(), 'POST', path, { key: outsider.key, json });
        expectError(await asOutsider(foreign), 404, 'NOT_FOUND', id);
        expectError(await send('POST', '/bulk', { json: foreign, key: outsider.key }), 403, 'FORBIDDEN');
        expectError(await send('GET', `/bulk/${id}`), 404, 'NOT_FOUND');
        expectError(
          await send('POST', '/bulk', { json: { action: 'replay' } }),
          400,
          'INVALID_INPUT',
          'exactly one of run_ids and filter',
        );
        const misspelt = { action: 'cancel', filter: { agent: 'bulky' } };
        expectError(await send('POST', '/bulk', { json: misspelt }), 400, 'INVALID_INPUT', 'filter');
        const many = { action: 'cancel', run_ids: Array.from({ length: 1001 }, () => crypto.randomUUID()) };
        expectError(await send('POST', '/bulk', { json: many }), 400, 'INVALID_INPUT', 'run_ids');
      });

      test('a replay takes another input, and another version', async () => {
        const id = await ask({ text: 'before' });
        const replay = (json: unknown) => send('POST', `/runs/${id}/replay`, { json });
        const { run_id: again } = expectOk(await replay({ input: { text: 'after' }, agent_version: 'latest' }), 202);
        await expect
          .poll(async () => expectOk(await send('GET', `/runs/${again}`)))
          .toMatchObject({
            status: 'completed',
            agent_version: 'v2',
            replay_of_run_id: id,
            input_data: { text: 'after' },
          });
        expectError(await replay({ agent_version: 'v9' }), 422, 'UNPROCESSABLE', 'no version v9');
        expectError(await replay({ agent_version: 'newest' }), 422, 'UNPROCESSABLE', 'no channel newest');
        expectError(await replay({ agent_version: '3.1' }), 400, 'INVALID_INPUT', 'agent_version');
        expectError(await replay({ input: [] }), 400, 'INVALID_INPUT', 'input');
        const masked = { input: { text: '[secret ANTHROPIC_API_KEY]' } };
        expectError(await replay(masked), 422, 'UNPROCESSABLE', 'masked secret');
      });
    });

    describe.skipIf(!hasSandbox)('of programs (skipped without a sandbox on this host)', () => {
      const call = async (json: unknown, headers: Record<string, string> = {}) => {
        const answer = await request(target(), 'POST', '/acme/recorded/v1/run', { key: target().key, json, headers });
        return answer.headers.get('x-run-id')!;
      };
      const runOf = async (id: string) => expectOk(await api('GET', `/runs/${id}`));

      test('a run shows its input, output and printed text', async () => {
        const id = await call({ n: 7 }, { 'x-platform-tenant': 'customer-1' });
        expect(await runOf(id)).toEqual({
          id,
          agent_name: 'recorded',
          agent_version: 'v1',
          endpoint: 'run',
          status: 'completed',
          error_code: null,
          error_message: null,
          duration_ms: expect.any(Number),
          trigger_source: 'api',
          started_at: expect.stringMatching(ISO_TIME),
          created_at: expect.stringMatching(ISO_TIME),
          run_at: null,
          completed_at: expect.stringMatching(ISO_TIME),
          parent_run_id: null,
          root_run_id: id,
          replay_of_run_id: null,
          branch: null,
          has_turns: false,
          tenant_id: 'customer-1',
          input_tokens: null,
          output_tokens: null,
          cache_read_tokens: null,
          cache_write_tokens: null,
          llm_provider: null,
          llm_model: null,
          cost_usd: null,
          credits_cents: 0,
          deadline: expect.stringMatching(ISO_TIME),
          schedule_id: null,
          scheduled_at: null,
          scheduled_local: null,
          scheduled_zone: null,
          session_id: null,
          input_data: { n: 7 },
          output_data: { ok: true },
          channel: null,
          is_canary: false,
          attempt: null,
          next_attempt_at: null,
          held_by: null,
          exhausted: false,
          max_attempts: null,
          failed_attempts: [],
        });
        const { deadline, started_at, ...short } = expectOk(await api('GET', `/runs/${id}?body=false`));
        expect(Date.parse(deadline)).toBeGreaterThan(Date.parse(started_at));
        expect(short).toMatchObject({ id, status: 'completed', input_data: null, output_data: null });
        const logs = expectOk(await api('GET', `/runs/${id}/logs`));
        expect(logs).toMatchObject({ run_id: id, run_status: 'completed', has_execution_log: true, exit_code: 0 });
        expect(logs.stderr).toBe('started\n');
        expectError(await api('GET', `/runs/${id}/dag`), 404, 'NOT_FOUND', 'called no other agent');
        expectOk(await api('GET', `/runs/${id}/trace`));
        const { events, next_cursor } = expectOk(await api('GET', `/traces/${id}/events`));
        // A run is queued until a sandbox is ready.
        const types = events
          .map(({ event_type }: { event_type: string }) => event_type)
          .filter((type: string) => type !== 'queue_succeeded');
        expect([types.at(0), types.at(-1), next_cursor]).toEqual(['setup_step_succeeded', 'sandbox_succeeded', null]);
      });

      test('a run is found by the first digits of its id, with or without dashes, and by its request id', async () => {
        const id = await call({});
        const digits = id.replaceAll('-', '');
        for (const name of [digits.slice(0, 12), id.slice(0, 13), `req_${digits}`, id.toUpperCase()]) {
          expect((await runOf(name)).id).toBe(id);
        }
        const { runs } = expectOk(await api('GET', `/runs?run_id_prefix=${digits.slice(0, 12)}`));
        expect(runs.map((run: { id: string }) => run.id)).toEqual([id]);
      });

      test('the list is newest first, filtered and paged', async () => {
        const ids = [await call({ a: 1 }), await call({ a: 2 }), await call({ a: 3 })].reverse();
        const list = async (query: string) => expectOk(await api('GET', `/runs?agent_name=recorded&${query}`));
        const all = await list('limit=200');
        expect(all.runs.slice(0, 3).map((run: { id: string }) => run.id)).toEqual(ids);
        expect(all.total).toBe(all.runs.length);
        const second = await list('limit=1&offset=1');
        expect(second).toMatchObject({ total: all.total, runs: [{ id: ids[1] }] });
        expect(await list('status=failed')).toMatchObject({ runs: [], total: 0 });
        expect(expectOk(await api('GET', '/runs?agent_name=no-such'))).toMatchObject({ runs: [], total: 0 });
      });

      test.each([
        ['DELETE', ''],
        ['POST', '/cancel'],
      ])('%s%s ends a run, once', async (method, suffix) => {
        const accepted = await request(target(), 'POST', '/acme/recorded/v1/run', {
          key: target().key,
          json: { slow: true },
          headers: { prefer: 'respond-async' },
        });
        const { run_id: id } = expectOk(accepted, 202);
        expect(id).toMatch(UUID);
        await expect.poll(async () => (await runOf(id)).status).toBe('running');
        expectError(await api(method, `/runs/${id}${suffix}`, outsider.key), 403, 'FORBIDDEN');
        expect(expectOk(await api(method, `/runs/${id}${suffix}`))).toMatchObject({ id, status: 'cancelled' });
        const again = expectOk(await api(method, `/runs/${id}${suffix}`));
        expect(again).toMatchObject({ status: 'cancelled', error_code: 'RUN_CANCELLED', output_data: null });
      });

      test('the caller of a cancelled run gets RUN_CANCELLED', async () => {
        const waiting = request(target(), 'POST', '/acme/recorded/v1/run', { key: target().key, json: { slow: 2 } });
        const running = async () => expectOk(await api('GET', '/runs?agent_name=recorded&status=running')).runs;
        await expect.poll(running, { timeout: 30_000 }).toHaveLength(1);
        const [{ id }] = await running();
        expectOk(await api('DELETE', `/runs/${id}`));
        expectError(await waiting, 409, 'RUN_CANCELLED');
      });

      test('a replay is a run of its own, with the same input', async () => {
        const id = await call({ n: 42 });
        const { run_id, replay_of_run_id, status } = expectOk(await api('POST', `/runs/${id}/replay`), 202);
        expect({ replay_of_run_id, status }).toEqual({ replay_of_run_id: id, status: 'queued' });
        await expect
          .poll(() => runOf(run_id), { timeout: 60_000 })
          .toMatchObject({
            status: 'completed',
            trigger_source: 'replay',
            replay_of_run_id: id,
            input_data: { n: 42 },
            output_data: { ok: true },
          });
      });

      test('a run with files cannot be replayed', async () => {
        const body = new FormData();
        body.append('files[]', new Blob(['text']), 'a.txt');
        const answer = await request(target(), 'POST', '/acme/recorded/v1/run', { key: target().key, body });
        const id = answer.headers.get('x-run-id');
        expectError(await api('POST', `/runs/${id}/replay`), 422, 'UNPROCESSABLE', 'files');
      });

      test('a run whose input held a secret cannot be replayed, because its record is masked', async () => {
        const value = 'replayed-b7c1';
        await request(target(), 'PUT', `/workspaces/${workspaceId}/secrets`, {
          key: target().key,
          json: { name: 'REPLAY_TOKEN', value },
        });
        await publishCode(
          client,
          'confidant',
          { 'main.sh': SLOW },
          { runtime: { command: 'bash main.sh' }, required_secrets: ['REPLAY_TOKEN'] },
        );
        const json = { token: value };
        const answer = await request(target(), 'POST', '/acme/confidant/v1/run', { key: target().key, json });
        const id = answer.headers.get('x-run-id')!;
        expect((await runOf(id)).input_data).toEqual({ token: '[secret REPLAY_TOKEN]' });
        expectError(await api('POST', `/runs/${id}/replay`), 422, 'UNPROCESSABLE', 'secret');
      });

      test('the runs of a deleted version stay, and cannot be replayed', async () => {
        const { agent } = await publishCode(
          client,
          'passing',
          { 'main.sh': SLOW },
          { runtime: { command: 'bash main.sh' } },
        );
        const answer = await request(target(), 'POST', '/acme/passing/v1/run', { key: target().key, json: {} });
        const id = answer.headers.get('x-run-id')!;
        await client.deleteAgent({ params: { id: agent.id }, query: {} });
        expect((await runOf(id)).status).toBe('completed');
        expectError(await api('POST', `/runs/${id}/replay`), 422, 'UNPROCESSABLE', 'deleted');
      });

      test("the agent's logs list its finished runs", async () => {
        const id = await call({});
        const logs = await client.listAgentLogs({ params: { id: agentId }, query: { limit: 1 } });
        expect(logs).toMatchObject([{ id, status: 'success' }]);
      });
    });
  });
}
