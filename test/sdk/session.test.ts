import { beforeEach, describe, expect, test } from 'vitest';
import { clients, type Job } from './languages.ts';
import { json, type Recorder, startRecorder } from './recorder.ts';

const FORK = `ses_${'2'.repeat(32)}`;

/** The requests of a conversation; `sessions.test.ts` has conversations with a platform. */
describe.each(clients())('a session of the SDK for $name', ({ run }) => {
  let platform: Recorder;
  beforeEach(async () => {
    platform = await startRecorder();
    platform.answer = ({ method, path }, response) => {
      if (path === '/org') return json(response, 200, { id: 'w1' });
      if (method === 'DELETE') return response.writeHead(204).end();
      if (path.endsWith('/interrupt')) return json(response, 200, { run_id: null });
      if (path.endsWith('/fork')) return json(response, 201, { id: FORK });
      if (method === 'GET') return json(response, 200, { items: [{ number: 1 }], next_cursor: null });
      if (path.endsWith('/messages')) return json(response, 200, { data: 'Hello!', metadata: { session_id: 's1' } });
      return json(response, 201, { id: 's1' });
    };
    return () => platform.close();
  });
  const converse = (args: unknown[], steps: Job['steps'], options: Job['options'] = {}) =>
    run(
      { module: 'session', method: '', args, options, steps },
      { PLATFORM_API_KEY: 'sk_live_made_up', PLATFORM_API_URL: platform.url },
    );
  const sent = () => platform.requests.filter(({ path }) => path !== '/org');

  test('is opened once, by its first message', async () => {
    const { value, error } = await converse(
      ['acme/helper@v3', 'user-42'],
      [
        ['send', 'Hello'],
        ['send', { question: 'And?' }],
      ],
      { title: 'Help', metadata: { plan: 'free' }, ttlDays: 7, busy: 'steer' },
    );
    expect(error).toBeUndefined();
    expect(value).toMatchObject([{ data: 'Hello!', metadata: { session_id: 's1' } }, { data: 'Hello!' }]);
    const opening = { agent: 'acme/helper', external_id: 'user-42', pin_version: 'v3', title: 'Help' };
    expect(sent()).toMatchObject([
      { path: '/workspaces/w1/sessions', body: { ...opening, metadata: { plan: 'free' }, ttl_days: 7, busy: 'steer' } },
      { path: '/workspaces/w1/sessions/s1/messages', body: { text: 'Hello' } },
      { path: '/workspaces/w1/sessions/s1/messages', body: { input: { question: 'And?' } } },
    ]);
    const keys = sent().map(({ headers }) => headers['idempotency-key']);
    expect(keys[0]).toBeUndefined();
    expect(new Set(keys.slice(1)).size).toBe(2);
  });

  test('sends a message again with the same key, and no second opening', async () => {
    const { answer } = platform;
    let failures = 0;
    platform.answer = (request, response) => {
      const isLost = request.path.endsWith('/messages') && failures++ === 0;
      return isLost ? response.destroy() : answer(request, response);
    };
    expect((await converse(['acme/helper'], [['send', 'Hello']])).value).toMatchObject([{ data: 'Hello!' }]);
    const [opened, first, second, ...more] = sent();
    expect([opened!.path, more]).toEqual(['/workspaces/w1/sessions', []]);
    expect(opened!.body).toEqual({ agent: 'acme/helper' });
    expect(first!.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/);
    expect(second!.headers['idempotency-key']).toBe(first!.headers['idempotency-key']);
  });

  test('names its tenant in each request, also of a fork', async () => {
    const steps: Job['steps'] = [
      ['stream', 'Hello'],
      ['messages'],
      ['interrupt'],
      ['fork', 1],
      ['send', 'Again'],
      ['delete'],
    ];
    const { value } = await converse(['acme/helper@latest', 'user-42'], steps, { tenant: 'customer-7' });
    expect(value).toMatchObject([
      [{ type: 'result', data: 'Hello!' }],
      [{ number: 1 }],
      null,
      FORK,
      { data: 'Hello!' },
      null,
    ]);
    expect(sent().map(({ method, path }) => `${method} ${path.replace('/workspaces/w1/sessions', '')}`)).toEqual([
      'POST ',
      'POST /s1/messages',
      'GET /s1/messages?order=asc',
      'POST /s1/interrupt',
      'POST /s1/fork',
      `POST /${FORK}/messages`,
      `DELETE /${FORK}`,
    ]);
    expect(sent().map(({ headers }) => headers['x-platform-tenant'])).toEqual(Array(7).fill('customer-7'));
    expect(sent()[0]!.body).toEqual({ agent: 'acme/helper', external_id: 'user-42' });
  });

  test('is found by its id, and fails as its opening does', async () => {
    const id = `ses_${'0a'.repeat(16)}`;
    await converse(['acme/helper', id], [['send', 'Hello']]);
    expect(sent().map(({ path }) => path)).toEqual([`/workspaces/w1/sessions/${id}/messages`]);
    platform.answer = (_, response) =>
      json(response, 403, { error: { code: 'FORBIDDEN', message: 'No.' }, metadata: {} });
    expect((await converse(['acme/helper'], [['send', 'Hello']])).error).toMatchObject({ code: 'FORBIDDEN' });
  });

  test('is of an agent', async () => {
    expect((await converse(['helper'], [['send', 'Hello']])).error?.message).toContain('"helper" is no agent');
    expect(platform.requests).toEqual([]);
  });
});
