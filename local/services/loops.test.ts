import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { expectOk } from '#test/e2e/expect.ts';
import { clientOf, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';

const bash = (command: string) => ({ name: 'bash', input: { command } });

describe('a loop as a service', async () => {
  const target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  const { kind } = await target.deps.sandbox.status();
  let user: TestUser;
  let users = 0;
  beforeEach(async () => {
    users += 1;
    user = await target.addUser(`looping-${users}`);
    for (const [name, value] of Object.entries({
      ANTHROPIC_API_KEY: 'sk-ant-loops-0123456789',
      EXTRA: 'made-up-extra-value',
      SERVICE_ACCESS_KEY: 'made-up-access-key',
    })) {
      expectOk(await api('PUT', '/secrets', { name, value }));
    }
  });
  afterAll(() => target.close());

  const api = (method: string, path: string, json?: unknown) =>
    request(target, method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json });
  const publish = (name: string, turns: readonly object[], manifest: object = {}) =>
    clientOf(target, user.key).createAgent({
      body: {
        name,
        description: `tests ${name}`,
        type: 'agent',
        run_mode: 'always_on',
        prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
        loop: { max_turns: 3 },
        required_secrets: [],
        ...manifest,
      },
    });
  const deploy = async (body: object) => expectOk(await api('POST', '/services', body), 201).service;

  async function ask(
    service: { service_url: string },
    {
      method = 'POST',
      path = '/',
      headers = {},
      body = '{}',
    }: Partial<Record<'method' | 'path' | 'body', string>> & {
      headers?: Record<string, string>;
    } = {},
  ) {
    const { port, host } = new URL(service.service_url);
    const asked = httpRequest({ host: '127.0.0.1', port, method, path, agent: false, headers: { host, ...headers } });
    asked.end(body);
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const content = await text(answer);
    return {
      status: answer.statusCode!,
      headers: answer.headers,
      content,
      body: content.startsWith('{') && JSON.parse(content),
    };
  }
  const isThere = (service: { service_url: string }, headers = {}) =>
    expect
      .poll(async () => (await ask(service, { method: 'GET', path: '/health', headers })).status, { timeout: 30_000 })
      .toBe(200);

  test.skipIf(kind === 'none')(
    'is started by what arrives at its address: each POST is a run that the workspace pays for',
    async () => {
      await publish('helper', [
        { toolCalls: [bash('echo "$WORD $EXTRA $PLATFORM_SERVICE_NAME $SERVICE_ACCESS_KEY."')] },
        { echo: true },
      ]);
      const service = await deploy({ agent: 'helper', env: { WORD: 'one' }, secret_names: ['EXTRA'] });
      await isThere(service);
      expect((await ask(service, { method: 'GET' })).body).toMatchObject({ agent: `${user.slug}/helper@v1` });

      const answer = await ask(service, { body: '{"question":"why","llm_credentials":{"model":"another"}}' });
      expect(answer.status, answer.content).toBe(200);
      expect(answer.body.metadata).toMatchObject({ version: 'v1', request_id: answer.headers['x-request-id'] });
      const runId = answer.headers['x-run-id'] as string;
      const run = expectOk(await api('GET', `/runs/${runId}`));
      expect(run).toMatchObject({ status: 'completed', trigger_source: 'service', input_data: { question: 'why' } });
      // The tools get the service's environment except its callers' key; secrets are masked.
      expect(answer.content).toContain('one [secret EXTRA] helper .');

      // A streamed call, an asynchronous one, and one that is sent twice.
      const streamed = await ask(service, { headers: { accept: 'text/event-stream' } });
      expect(streamed.headers['content-type']).toBe('text/event-stream');
      expect(streamed.content).toMatch(/event: progress\n[\s\S]*event: result\ndata: /);
      const late = await ask(service, { headers: { prefer: 'respond-async' } });
      expect([late.status, late.body.status]).toEqual([202, 'running']);
      const twice = [];
      for (let i = 0; i < 2; i++) twice.push(await ask(service, { headers: { 'idempotency-key': 'same' } }));
      expect(twice.map(({ status, headers }) => [status, headers['x-run-id']])).toEqual(
        Array(2).fill([200, expect.any(String)]),
      );
      expect(twice.map(({ headers }) => headers['idempotent-replayed'])).toEqual([undefined, 'true']);
      const { runs } = expectOk(await api('GET', '/runs?limit=50'));
      expect(runs.map(({ trigger_source }: { trigger_source: string }) => trigger_source)).toEqual(
        Array(4).fill('service'),
      );

      const wrong = await ask(service, { body: 'no JSON' });
      expect([wrong.status, wrong.body.error.message]).toEqual([400, expect.stringContaining('not valid JSON')]);
      const large = await ask(service, { body: JSON.stringify({ long: 'x'.repeat(26 * 1024 ** 2) }) });
      expect([large.status, large.body.error.code]).toEqual([413, 'DOCUMENT_TOO_LARGE']);

      expectOk(await api('PATCH', `/services/${service.id}`, { desired_state: 'stopped' }));
      await expect.poll(async () => (await ask(service)).status, { timeout: 30_000 }).toBe(503);
      expectOk(await api('DELETE', `/services/${service.id}`));
      const { total_calls } = expectOk(await request(target, 'GET', '/usage', { key: user.key }));
      expect(total_calls).toBe(4);
    },
  );

  test.skipIf(kind === 'none')('with an access key is closed to everybody without it', async () => {
    await publish('guarded', [{ text: '{"answered": true}' }]);
    const service = await deploy({ agent: 'guarded', secret_names: ['SERVICE_ACCESS_KEY'] });
    await isThere(service);
    expect((await ask(service)).body.error).toMatchObject({ code: 'UNAUTHORIZED' });
    const answer = await ask(service, { headers: { authorization: 'Bearer made-up-access-key' } });
    expect([answer.status, answer.body.data]).toEqual([200, { answered: true }]);
    // The path form for local programs reaches the same service.
    const path = await request(target, 'POST', `/services/${service.id}/`, { key: 'made-up-access-key', json: {} });
    expect(expectOk(path).data).toEqual({ answered: true });
    expectOk(await api('DELETE', `/services/${service.id}`));
  });
});
