import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

/** Messages are posted after the run has been answered. */
const WAIT = { timeout: 30_000, interval: 100 };

/** Webhooks of runs. The target must allow requests to 127.0.0.1. */
export function destinationsSuite(target: () => Target): void {
  describe('destinations', { timeout: 120_000 }, () => {
    let owner: TestUser;
    let receiver: Receiver;
    let secret: string;
    const api = (method: string, path: string, json?: unknown, key = owner.key) =>
      request(target(), method, `/workspaces/${owner.workspaceId}${path}`, { key, json });
    const create = async (settings: object): Promise<{ id: string; url: string }> =>
      expectOk(await api('POST', '/destinations', settings), 201).destination;
    const call = (json: object, headers: Record<string, string> = {}, agent = 'rw-owner/echo') =>
      request(target(), 'POST', `/${agent}/v1/run`, { key: owner.key, json, headers });
    const arrived = (path: string, count: number) =>
      vi.waitFor(() => {
        expect(receiver.at(path)).toHaveLength(count);
        return receiver.at(path);
      }, WAIT);
    const log = async (id: string) => expectOk(await api('GET', `/destinations/${id}/log`)).deliveries;

    beforeAll(async () => {
      // A target that reaches a model on this machine also reaches a receiver here.
      needsModel(target());
      receiver = await startReceiver();
      owner = await target().addUser('rw-owner');
      expectOk(await api('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: `sk-hooks-${owner.userId}` }));
      const echo = { type: 'prompt', description: 'Answers.', supported_providers: ['anthropic'] } as const;
      for (const name of ['echo', 'other']) {
        await clientOf(target(), owner.key).createAgent({
          body: { ...echo, name, prompt: 'Answer {{question}}.' },
        });
      }
      secret = expectOk(await api('POST', '/signing-secret')).signing_secret;
    });
    afterEach(async () => {
      for (const { id } of expectOk(await api('GET', '/destinations')).destinations) {
        expectOk(await api('DELETE', `/destinations/${id}`));
      }
    });
    afterAll(() => receiver?.close());

    test('get the end of each run once, signed, without its input', async () => {
      const { id } = await create({ url: `${receiver.url}/ends` });
      const answer = await call({ question: 'A question that nobody else may read.' });
      expectOk(answer);
      const [{ body, headers, text }] = (await arrived('/ends', 1)) as [ReturnType<Receiver['at']>[number]];
      const runId = answer.headers.get('x-run-id')!;
      const record = expectOk(await api('GET', `/runs/${runId}`));
      expect(body).toEqual({
        type: 'run.completed',
        timestamp: expect.any(String),
        data: {
          run_id: runId,
          workspace_id: owner.workspaceId,
          agent: 'rw-owner/echo',
          agent_version: 'v1',
          endpoint: 'run',
          status: 'completed',
          error_code: null,
          error_message: null,
          trigger_source: 'api',
          schedule_id: null,
          parent_run_id: null,
          root_run_id: runId,
          replay_of_run_id: null,
          tenant_id: null,
          started_at: record.started_at,
          completed_at: record.completed_at,
          duration_ms: record.duration_ms,
          input_tokens: record.input_tokens,
          output_tokens: record.output_tokens,
          llm_provider: record.llm_provider,
          llm_model: record.llm_model,
          cost_usd: record.cost_usd,
          credits_cents: record.credits_cents,
        },
      });
      expect(text).not.toContain('nobody else');
      const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
      const hmac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(signed);
      expect(headers['webhook-signature']).toBe(`v1,${hmac.digest('base64')}`);
      await vi.waitFor(async () => {
        expect(await log(id)).toEqual([
          {
            id: headers['webhook-id'],
            run_id: runId,
            event: 'run.completed',
            status: 'delivered',
            tries: 1,
            problem: null,
            created_at: expect.any(String),
            updated_at: expect.any(String),
            next_try_at: null,
          },
        ]);
      }, WAIT);
    });

    test('get the runs that their filters let through: by event, agent, status and trigger', async () => {
      await create({ url: `${receiver.url}/failed`, events: ['run.failed'] });
      await create({ url: `${receiver.url}/other`, agents: ['rw-owner/other'] });
      await create({ url: `${receiver.url}/timeouts`, statuses: ['timeout', 'cancelled'] });
      await create({ url: `${receiver.url}/replays`, trigger_sources: ['replay'] });
      await create({ url: `${receiver.url}/all` });
      await create({ url: `${receiver.url}/off`, enabled: false });
      const completed = await call({ question: 'one' });
      expectOk(completed);
      expectOk(await call({ question: 'two' }, {}, 'rw-owner/other'));
      expectError(await call({ question: '[[llm {"status":400}]]' }), 502, 'LLM_ERROR');
      expectOk(await api('POST', `/runs/${completed.headers.get('x-run-id')}/replay`, {}), 202);
      const all = await arrived('/all', 4);
      const replays = await arrived('/replays', 1);
      expect(replays[0]!.body.data).toMatchObject({
        trigger_source: 'replay',
        replay_of_run_id: completed.headers.get('x-run-id'),
      });
      expect((await arrived('/other', 1))[0]!.body.data.agent).toBe('rw-owner/other');
      const failed = all.filter(({ body }) => body.type === 'run.failed');
      expect(receiver.at('/failed').map(({ body }) => body.data.run_id)).toEqual(
        failed.map(({ body }) => body.data.run_id),
      );
      for (const { body } of failed)
        expect(body.data).toMatchObject({ status: 'failed', error_code: expect.any(String) });
      for (const path of ['/timeouts', '/off']) expect(receiver.at(path)).toEqual([]);
    });

    test('get the output only if they ask for it, and CloudEvents in their own form', async () => {
      await create({ url: `${receiver.url}/cloud`, format: 'cloudevents', include_output: true });
      const answer = await call({ question: 'four' });
      const { data } = expectOk(answer);
      const runId = answer.headers.get('x-run-id')!;
      const [{ body, headers }] = (await arrived('/cloud', 1)) as [ReturnType<Receiver['at']>[number]];
      expect(headers['content-type']).toBe('application/cloudevents+json');
      expect(headers['webhook-signature']).toMatch(/^v1,/);
      expect(body).toEqual({
        specversion: '1.0',
        id: headers['webhook-id'],
        source: `/workspaces/${owner.workspaceId}/agents/rw-owner/echo`,
        type: 'run.completed',
        subject: runId,
        time: expect.any(String),
        datacontenttype: 'application/json',
        data: expect.objectContaining({ run_id: runId, output: data, output_omitted: false }),
      });
    });

    test('are named by one call that does not wait', async () => {
      const async = { prefer: 'respond-async' };
      const { run_id } = expectOk(
        await call({ question: 'five' }, { ...async, 'x-platform-webhook': `${receiver.url}/call?token=t` }),
        202,
      );
      expectOk(await call({ question: 'six' }, async), 202);
      const [message] = await arrived('/call', 1);
      expect(message!.path).toBe('/call?token=t');
      expect(message!.body).toMatchObject({ type: 'run.completed', data: { run_id, status: 'completed' } });
      expect(message!.body.data).not.toHaveProperty('output');
      await vi.waitFor(async () => {
        expect((await log('calls')).map(({ run_id, status }: Record<string, string>) => [run_id, status])).toEqual([
          [run_id, 'delivered'],
        ]);
      }, WAIT);
    });

    test.each([
      ['without respond-async', {}, 'https://hooks.example.com/', 'only a call that does not wait'],
      ['of http', { prefer: 'respond-async' }, 'http://hooks.example.com/', 'must begin with https://'],
      [
        'of a private network',
        { prefer: 'respond-async' },
        'https://10.0.0.1/',
        'not an address of the public internet',
      ],
      ['with a password', { prefer: 'respond-async' }, 'https://a:b@hooks.example.com/', 'must not have a user'],
      ['that is none', { prefer: 'respond-async' }, 'hooks', 'not a web address'],
    ])('refuse an address of a call %s', async (_, headers, url, message) => {
      const answer = await call({ question: 'seven' }, { ...headers, 'x-platform-webhook': url });
      expect(expectError(answer, 400, 'INVALID_INPUT', message).message).toContain('x-platform-webhook');
    });

    test.each([
      ['an address of this machine', { url: 'https://localhost/' }, 'body.url'],
      ['an address without https', { url: 'http://hooks.example.com/' }, 'body.url'],
      ['a port of another protocol', { url: 'https://hooks.example.com:25/' }, 'port 25'],
      ['an agent without its workspace', { agents: ['triage'] }, 'org/agent'],
      ['an unknown event', { events: ['run.queued'] }, 'events'],
      ['a status that no ended run has', { statuses: ['running'] }, 'statuses'],
      ['a status that its events exclude', { events: ['run.completed'], statuses: ['failed'] }, 'body.statuses'],
      ['a status beside events of no end', { events: ['run.waiting'], statuses: ['failed'] }, 'body.statuses'],
      ['an unknown trigger', { trigger_sources: ['clock'] }, 'trigger_sources'],
      ['an unknown form', { format: 'xml' }, 'format'],
      ['an unknown member', { secret: 'x' }, 'secret'],
    ])('refuse %s', async (_, body, message) => {
      const sent = { url: 'https://hooks.example.com/', ...body };
      expectError(await api('POST', '/destinations', sent), 400, 'INVALID_INPUT', message);
      const { id } = await create({ url: 'https://hooks.example.com/' });
      expectError(await api('PATCH', `/destinations/${id}`, body), 400, 'INVALID_INPUT', message);
    });

    test('are at most ten of a workspace', async () => {
      for (let n = 0; n < 10; n++) await create({ url: `https://hooks.example.com/${n}`, enabled: false });
      const answer = await api('POST', '/destinations', { url: 'https://hooks.example.com/10' });
      expectError(answer, 409, 'CONFLICT', '10 destinations');
    });

    test('are changed by owners, read by members, and unknown to others', async () => {
      const { id } = await create({ url: `${receiver.url}/rights` });
      const member = await target().addUser('rw-member');
      const stranger = await target().addUser('rw-stranger');
      await target().addMember(member, owner.workspaceId);
      for (const path of ['', `/${id}`, `/${id}/log`]) {
        expectOk(await api('GET', `/destinations${path}`, undefined, member.key));
        expectError(await api('GET', `/destinations${path}`, undefined, stranger.key), 403, 'FORBIDDEN');
      }
      for (const [method, path, body] of [
        ['POST', '', { url: 'https://hooks.example.com/' }],
        ['PATCH', `/${id}`, { enabled: false }],
        ['DELETE', `/${id}`, undefined],
        ['POST', `/${id}/test`, undefined],
      ] as const) {
        expectError(await api(method, `/destinations${path}`, body, member.key), 403, 'FORBIDDEN');
      }
      const theirs = `/workspaces/${stranger.workspaceId}/destinations/${id}`;
      expectError(await request(target(), 'GET', theirs, { key: stranger.key }), 404, 'NOT_FOUND', id);
      expectError(await request(target(), 'DELETE', theirs, { key: stranger.key }), 404, 'NOT_FOUND', id);
    });

    test('are tested at once, and tell what went wrong', async () => {
      const { id } = await create({ url: `${receiver.url}/test` });
      expect(expectOk(await api('POST', `/destinations/${id}/test`))).toEqual({ success: true, problem: null });
      expect(receiver.at('/test')[0]!.body).toMatchObject({ type: 'run.completed', data: { test: true } });
      expectOk(await api('PATCH', `/destinations/${id}`, { url: `${receiver.url}/503/test` }));
      const problem = expect.stringContaining('503');
      expect(expectOk(await api('POST', `/destinations/${id}/test`))).toEqual({ success: false, problem });
      const [failed, delivered] = await log(id);
      expect(failed).toMatchObject({ run_id: null, status: 'failed', tries: 1, problem });
      expect(delivered).toMatchObject({ run_id: null, status: 'delivered', problem: null });
    });

    test('that do not accept a message get it again later', async () => {
      const { id } = await create({ url: `${receiver.url}/500/later` });
      expectOk(await call({ question: 'eight' }));
      await vi.waitFor(async () => {
        const [entry] = await log(id);
        expect(entry).toMatchObject({ status: 'pending', tries: 1, problem: expect.stringContaining('500') });
        expect(Date.parse(entry.next_try_at)).toBeGreaterThan(Date.now() + 30_000);
      }, WAIT);
    });
  });
}
