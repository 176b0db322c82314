import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const TOKEN = 'tok-said-5c1e77';

interface Said {
  readonly role?: string;
  readonly text: string;
  readonly is_cut?: true;
}

/** Message content of run steps, and the waterfall of a chain (`docs/interface/runs.md#content`). */
export function traceContentSuite(target: () => Target, has: Languages): void {
  describe('what was said in runs', () => {
    let author: TestUser;
    const send = (method: string, path: string, json?: unknown, key = author.key) =>
      request(target(), method, path, { key, json });
    const own = (path: string) => `/workspaces/${author.workspaceId}${path}`;
    const keep = async (trace_content: string) => expectOk(await send('PATCH', '/org', { trace_content }));
    const runIdOf = async (path: string, json: unknown, key?: string) =>
      (await send('POST', path, json, key)).headers.get('x-run-id')!;
    const eventsOf = async (id: string, query = 'content=true') =>
      expectOk(await send('GET', own(`/traces/${id}/events?${query}`))).events;
    const contentsOf = async (id: string) => (await eventsOf(id)).map(({ content }: { content?: object }) => content);

    beforeAll(async () => {
      needsModel(target());
      author = await target().addUser('said');
      for (const [name, value] of Object.entries({ TOKEN, ANTHROPIC_API_KEY: 'sk-said' })) {
        expectOk(await send('PUT', own('/secrets'), { name, value }));
      }
      const prompt = { type: 'prompt', description: 'x', prompt: 'Say {{text}}.', supported_providers: ['anthropic'] };
      expectOk(await send('POST', '/agents', { ...prompt, name: 'says', required_secrets: ['TOKEN'] }), 201);
      expectOk(await send('POST', '/agents', { ...prompt, name: 'open', is_public: true }), 201);
    });

    test('is kept as the workspace wants it, masked, and for its members alone', async () => {
      const input = { text: `${TOKEN} hello` };
      expect(expectOk(await send('GET', '/org'))).toMatchObject({ trace_content: 'off' });
      const off = await runIdOf('/said/says/v1/run', input);
      expect(await contentsOf(off)).toEqual([undefined, undefined]);

      expect(await keep('errors')).toMatchObject({ trace_content: 'errors' });
      const good = await runIdOf('/said/says/v1/run', input);
      expect(await contentsOf(good)).toEqual([undefined, undefined]);
      const bad = await runIdOf('/said/says/v1/run', { text: `${TOKEN} [[llm {"status":400}]]` });
      const [asked, failed] = await contentsOf(bad);
      expect(asked.messages).toMatchObject([{ role: 'user', text: expect.stringContaining('Say [secret TOKEN]') }]);
      expect(failed).toBeUndefined();

      await keep('all');
      const all = await runIdOf('/said/says/v1/run', input);
      const [question, answer] = await contentsOf(all);
      expect(question.messages.at(-1)).toMatchObject({ text: expect.stringContaining('Say [secret TOKEN] hello.') });
      expect(answer.messages).toMatchObject([{ role: 'assistant', text: expect.any(String) }]);
      expect(JSON.stringify([asked, question, answer])).not.toContain(TOKEN);
      const long = await contentsOf(await runIdOf('/said/says/v1/run', { text: 'x'.repeat(100_000) }));
      expect(long[0].messages.at(-1)).toMatchObject({ is_cut: true, text: expect.stringContaining('bytes left out') });
      expect(long[0].messages.at(-1).text.length).toBeLessThanOrEqual(32 * 1024);
      // Content is returned only on request, and also for a single step.
      expect(await eventsOf(all, '')).not.toContainEqual(expect.objectContaining({ content: expect.anything() }));
      const [{ span_id }] = await eventsOf(all);
      expect(await eventsOf(all, `content=true&span_id=${span_id}`)).toHaveLength(2);
      expect(await eventsOf(all, `content=true&span_id=${'0'.repeat(16)}`)).toEqual([]);
      expectError(await send('GET', own(`/traces/${all}/events?span_id=x`)), 400, 'INVALID_INPUT', 'span_id');
      const outsider = await target().addUser('said-outsider');
      expectError(
        await send('GET', own(`/traces/${all}/events?content=true`), undefined, outsider.key),
        403,
        'FORBIDDEN',
      );
      const elsewhere = `/workspaces/${outsider.workspaceId}/traces/${all}/events?content=true`;
      expectError(await send('GET', elsewhere, undefined, outsider.key), 404, 'NOT_FOUND');

      // Messages of another author's agent are visible only to that author.
      expectOk(
        await send(
          'PUT',
          `/workspaces/${outsider.workspaceId}/secrets`,
          { name: 'ANTHROPIC_API_KEY', value: 'sk-said-2' },
          outsider.key,
        ),
      );
      expectOk(await send('PATCH', '/org', { trace_content: 'all' }, outsider.key));
      const foreign = await runIdOf('/said/open/v1/run', input, outsider.key);
      const path = `/workspaces/${outsider.workspaceId}/traces/${foreign}/events?content=true`;
      const { events } = expectOk(await send('GET', path, undefined, outsider.key));
      expect(events.map(({ content }: { content?: object }) => content)).toEqual([undefined, undefined]);
      expectError(await send('PATCH', '/org', { trace_content: 'some' }), 400, 'INVALID_INPUT', 'trace_content');
    });

    test.skipIf(!has.python)('of any size is paged, so that answers stay small', async () => {
      await keep('all');
      const noise = (n: string) => ({
        name: 'bash',
        input: { command: `echo ${n}; head -c 60000 /dev/zero | tr '\\0' '\\1'` },
      });
      const turns = Array.from({ length: 3 }, (_, turn) => ({
        toolCalls: Array.from({ length: 8 }, (_, at) => noise(`${turn}.${at}`)),
      }));
      const json = {
        name: 'large',
        type: 'agent',
        description: 'x',
        prompt: `Do it. [[llm ${JSON.stringify([...turns, { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] }])}]]`,
        required_secrets: [],
      };
      expectOk(await send('POST', '/agents', json), 201);
      const id = await runIdOf('/said/large/v1/run', {});
      const found: { sequence_no: number; content?: { result?: Said } }[] = [];
      let pages = 0;
      for (let cursor: string | null = '0'; cursor !== null; pages++) {
        const page = expectOk(await send('GET', own(`/traces/${id}/events?content=true&cursor=${cursor}`)));
        expect(JSON.stringify(page).length).toBeLessThan(5_000_000);
        found.push(...page.events);
        cursor = page.next_cursor;
      }
      expect(pages).toBeGreaterThan(1);
      const plain = await eventsOf(id, 'limit=1000');
      expect(found.map(({ sequence_no }) => sequence_no)).toEqual(plain.map((_: unknown, at: number) => at));
      const results = found.flatMap(({ content }) => content?.result ?? []);
      expect(results).toHaveLength(25);
      expect(results.filter(({ text }) => text.length > 10_000)).toHaveLength(24);
    });

    test.skipIf(!has.python)('one waterfall has the steps of a whole chain', async () => {
      await keep('all');
      const loop = (name: string, turns: readonly ScriptedTurn[], manifest = {}) =>
        send('POST', '/agents', {
          name,
          type: 'agent',
          description: 'x',
          prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
          required_secrets: [],
          ...manifest,
        });
      const helper = 'python3 /home/user/helpers/platform_call.py';
      expectOk(await loop('below', [{ toolCalls: [{ name: 'submit_result', input: { result: 'deep' } }] }]), 201);
      const tool = { name: 'delegate', description: 'x', command: `${helper} said/below@v1` };
      expectOk(
        await loop(
          'above',
          [
            { toolCalls: [{ name: 'delegate', input: {} }] },
            { toolCalls: [{ name: 'submit_result', input: { result: 'up' } }] },
          ],
          {
            loop: { custom_tools: [tool] },
            manifest: {
              manifest_version: 1,
              max_hops: 2,
              timeout_ms: 60_000,
              dependencies: [{ id: 'said/below', version: 'v1' }],
            },
          },
        ),
        201,
      );
      const answer = await send('POST', '/said/above/v1/run', {});
      expect(expectOk(answer).data).toEqual({ result: 'up' });
      const id = answer.headers.get('x-run-id')!;
      const waterfall = async (query = '') => expectOk(await send('GET', own(`/runs/${id}/waterfall${query}`)));
      const whole = await waterfall();
      expect(whole).toMatchObject({ root_run_id: id, is_live: false, next_cursor: null, total_runs: 2 });
      const [root, called] = whole.runs;
      expect(root).toMatchObject({ run_id: id, parent_span_id: null, status: 'completed', has_content: true });
      const delegate = root.steps.find(({ kind }: { kind: string }) => kind === 'tool_call');
      expect(delegate).toMatchObject({ status: 'succeeded', payload: { turn: 1 }, ended_at: expect.any(String) });
      expect(called).toMatchObject({
        agent_name: 'below',
        parent_run_id: id,
        parent_span_id: delegate.span_id,
        has_content: true,
      });
      const llm = called.steps.filter(({ kind }: { kind: string }) => kind === 'llm_call');
      expect(llm).toMatchObject([
        { status: 'succeeded', parent_span_id: called.span_id, token_input: expect.any(Number) },
      ]);
      // Any run of the chain gives the same waterfall, also in pages.
      expect(expectOk(await send('GET', own(`/runs/${called.run_id}/waterfall`)))).toEqual(whole);
      const first = await waterfall('?limit=1');
      expect(first.runs).toEqual([root]);
      const rest = await waterfall(`?cursor=${first.next_cursor}`);
      expect([...first.runs, ...rest.runs]).toEqual(whole.runs);
      const said = await contentsOf(called.run_id);
      expect(JSON.stringify(said)).toContain('deep');
    });
  });
}
