import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientOf, startLocalTarget } from '#test/helpers/platform.ts';
import { clients, type Job } from './languages.ts';

/** Conversations with a platform, whose model says what it has been told. */
const target = await startLocalTarget({});
afterAll(() => target.close());

beforeAll(async () => {
  const client = clientOf(target);
  const params = { workspace_id: (await client.getOrg({})).id };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' } });
  await client.createAgent({
    body: { name: 'helper', type: 'prompt', description: 'x', prompt: 'Help.', supported_providers: ['anthropic'] },
  });
  const said = ['One.', 'Two.', 'Three.', 'Four.'].map((text) => ({ text }));
  target.llm.script({
    rules: [
      { marker: 'Wait for it', turns: [{ hang: true }] },
      { marker: 'Help.', turns: said },
    ],
  });
});

describe.each(clients())('a session of the SDK for $name, on a running platform', ({ run }) => {
  const env = { PLATFORM_API_KEY: target.key, PLATFORM_API_URL: target.url };
  const converse = (session: string, steps: Job['steps'], options: Job['options'] = {}) =>
    run({ module: 'session', method: '', args: ['acme/helper', session], options, steps }, env);
  const newUser = () => `user-${crypto.randomUUID()}`;

  test('remembers what was said, is found by its name, and forgets', async () => {
    const user = newUser();
    const begun = await converse(user, [['send', 'First'], ['id']]);
    expect(begun.error).toBeUndefined();
    const [answer, id] = begun.value;
    expect(answer).toMatchObject({ data: { result: 'One.' }, metadata: { session_id: id } });
    const { value } = await converse(user, [
      ['id'],
      ['stream', { message: 'Second' }],
      ['messages'],
      ['fork', 1],
      ['messages'],
    ]);
    const [found, events, messages, fork, forked] = value;
    expect(found).toBe(id);
    expect(events.filter(({ type }: { type: string }) => type === 'text_delta').length).toBeGreaterThan(0);
    expect(events.at(-1)).toMatchObject({ type: 'result', data: { result: 'Two.' } });
    expect(messages).toMatchObject([
      { number: 1, status: 'completed', input: { message: 'First' }, output: { result: 'One.' } },
      { number: 2, input: { message: 'Second' }, output: { result: 'Two.' } },
    ]);
    expect(fork).not.toBe(id);
    expect(forked).toMatchObject([{ number: 1, output: { result: 'One.' } }]);

    expect((await converse(fork, [['send', 'Other']])).value).toMatchObject([{ data: { result: 'Two.' } }]);
    expect((await converse(user, [['delete']])).value).toEqual([null]);
    const gone = await converse(id, [['messages']]);
    expect(gone.error).toMatchObject({ type: 'NotFoundError', code: 'NOT_FOUND' });
  });

  test('interrupts the run that is under way', async () => {
    const user = newUser();
    expect((await converse(user, [['interrupt']])).value).toEqual([null]);
    const [id] = (await converse(user, [['id']])).value;
    const answered = converse(user, [['send', 'Wait for it']]);
    await expect
      .poll(async () => (await converse(id, [['messages']])).value[0]?.[0]?.status, { timeout: 20_000 })
      .toBe('running');
    expect((await converse(user, [['interrupt']])).value).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    expect((await answered).error).toMatchObject({ type: 'RunFailedError', code: 'RUN_CANCELLED' });
  });

  test('is seen by its tenant alone', async () => {
    const [id] = (await converse(newUser(), [['id']], { tenant: 'customer-7' })).value;
    const stranger = { tenant: 'customer-8' };
    expect((await converse(id, [['messages']], stranger)).error).toMatchObject({ code: 'NOT_FOUND' });
    expect((await converse(id, [['send', 'Hello']], stranger)).error).toMatchObject({ code: 'NOT_FOUND' });
    expect((await converse(id, [['send', 'Hello']])).error).toMatchObject({ code: 'NOT_FOUND' });
    const own = await converse(id, [['messages'], ['send', 'Hello']], { tenant: 'customer-7' });
    expect(own.value).toMatchObject([[], { data: { result: 'One.' } }]);
  });
});
