import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

// A deployed platform looks for lost requests once a minute.
const untilEnded = { timeout: 150_000, interval: 200 };
const limit = { timeout: 180_000 };

/** When runs may begin (`docs/interface/queues.md`). */
export function queuesSuite(target: () => Target): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json });
  /** A prompt whose model takes some time. */
  const publish = (name: string, rules: object, ms = 1000) => {
    const prompt = `Take turns. [[llm ${JSON.stringify([{ delayMs: ms, text: 'done' }])}]]`;
    const body = { name, type: 'prompt', description: 'x', supported_providers: ['anthropic'], prompt, ...rules };
    return request(target(), 'POST', '/agents', { key: user.key, json: body });
  };
  const call = (name: string, json: object = {}, headers: Record<string, string> = { prefer: 'respond-async' }) =>
    request(target(), 'POST', `/queueing/${name}/latest/run`, { key: user.key, json, headers });
  const begin = async (name: string, json: object = {}, headers: Record<string, string> = {}) =>
    expectOk(await call(name, json, { prefer: 'respond-async', ...headers }), 202);
  const runOf = async (id: string) => {
    await target().passMinute?.();
    return expectOk(await send('GET', `/runs/${id}`));
  };
  const ended = async (id: string) => {
    await expect.poll(async () => (await runOf(id)).completed_at, untilEnded).not.toBeNull();
    return runOf(id);
  };

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('queueing');
    expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-queueing-0123456789' }));
  });

  describe('runs with the same key', () => {
    test('take turns, by priority and age, and say what holds them', limit, async () => {
      const { agent } = expectOk(await publish('turns', { concurrency: { limit: 1, key: '/customer' } }, 2000), 201);
      expect(agent.concurrency).toEqual({ limit: 1, key: '/customer', on_limit: 'queue' });
      const input = { customer: 'customer-42' };
      const first = await begin('turns', input);
      const second = await begin('turns', input);
      const urgent = await begin('turns', input, { 'x-platform-priority': '10' });
      const other = await begin('turns', { customer: 'customer-43' });
      expect([first.status, second.status, urgent.status, other.status]).toEqual([
        'running',
        'queued',
        'queued',
        'running',
      ]);
      expect(second.held_by).toMatchObject({ rule: 'concurrency', limit: 1, priority: 0, begins_at: null });
      expect(second.held_by.key).toMatch(/^cus…/);
      expect(expectOk(await send('GET', `/runs/${second.run_id}`))).toMatchObject({
        started_at: null,
        held_by: { limit: 1 },
      });
      const runs = [];
      for (const { run_id } of [first, second, urgent]) runs.push(await ended(run_id));
      for (const run of runs) expect(run).toMatchObject({ status: 'completed', held_by: null });
      const [a, b, c] = runs.map(({ started_at, completed_at }) => [Date.parse(started_at), Date.parse(completed_at)]);
      expect(c![0]).toBeGreaterThanOrEqual(a![1]!);
      expect(b![0]).toBeGreaterThanOrEqual(c![1]!);
    });

    test('have no place while they wait for an answer, and take their turn again to continue', limit, async () => {
      const turns = [
        { delayMs: 6000, toolCalls: [{ name: 'ask_human', input: { question: 'May I?' } }] },
        { toolCalls: [{ name: 'submit_result', input: { result: 'over' } }] },
      ];
      const loop = {
        type: 'agent',
        required_secrets: [],
        prompt: `Ask. [[llm ${JSON.stringify(turns)}]]`,
        loop: { tools: ['ask_human'] },
      };
      expectOk(await publish('asking', { ...loop, concurrency: { limit: 1 } }), 201);
      const until = async (id: string, status: string) => {
        await expect.poll(async () => (await runOf(id)).status, untilEnded).toBe(status);
        return runOf(id);
      };
      const answer = (id: string) =>
        send('POST', `/approvals/${id}.1.1/decision`, { decision: 'answer', answer: 'Yes' });
      const first = (await begin('asking')).run_id;
      const second = (await begin('asking')).run_id;
      await until(first, 'waiting');
      await until(second, 'running');
      expectOk(await answer(first));
      const held = await until(first, 'queued');
      expect(held).toMatchObject({ held_by: { rule: 'concurrency', limit: 1 }, started_at: expect.any(String) });
      await until(second, 'waiting');
      expect(await ended(first)).toMatchObject({ status: 'completed', held_by: null, started_at: held.started_at });
      expectOk(await answer(second));
      expect((await ended(second)).status).toBe('completed');
    });

    test('are never more than the limit, even if 20 come at once', limit, async () => {
      const burst = async (name: string) => {
        const calls = await Promise.all(Array.from({ length: 20 }, () => call(name)));
        return calls.map((answer) => expectOk(answer, 202));
      };
      // None of these ends while the others are called.
      expectOk(await publish('long-burst', { concurrency: { limit: 2 } }, 20_000), 201);
      const long = await burst('long-burst');
      expect(long.filter(({ status }) => status === 'running').length).toBe(2);
      // What waits first, so that nothing takes the places of those that run.
      for (const { run_id } of long.sort((a, b) => a.status.localeCompare(b.status))) {
        expectOk(await send('DELETE', `/runs/${run_id}`));
      }
      expectOk(await publish('burst', { concurrency: { limit: 2 } }, 300), 201);
      const accepted = await burst('burst');
      for (const { run_id } of accepted) expect((await ended(run_id)).status).toBe('completed');
      // The others are recorded as of the time at which their calls came, before they took their places.
      const waited = await Promise.all(accepted.filter(({ held_by }) => held_by).map(({ run_id }) => runOf(run_id)));
      expect(waited.length).toBeGreaterThan(0);
      const times = waited.flatMap(({ started_at, completed_at }) => [
        { at: Date.parse(started_at), change: 1 },
        { at: Date.parse(completed_at), change: -1 },
      ]);
      let atOnce = 0;
      for (const { change } of times.sort((x, y) => x.at - y.at || x.change - y.change)) {
        atOnce += change;
        expect(atOnce).toBeLessThanOrEqual(2);
      }
    });

    test('are rejected if the agent says so', limit, async () => {
      expectOk(await publish('rejects', { concurrency: { limit: 1, on_limit: 'reject' } }), 201);
      const first = await begin('rejects');
      expectError(await call('rejects'), 429, 'RATE_LIMITED', 'concurrency of queueing/rejects allows 1 run at once');
      expectError(await call('rejects', {}, {}), 429, 'RATE_LIMITED', 'rejects further calls');
      expect((await ended(first.run_id)).status).toBe('completed');
    });

    test('are replaced if the agent says so', limit, async () => {
      expectOk(await publish('replaces', { concurrency: { limit: 1, on_limit: 'replace' } }, 3000), 201);
      const [first, second, third] = [await begin('replaces'), await begin('replaces'), await begin('replaces')];
      expect(await ended(second.run_id)).toMatchObject({ status: 'cancelled', error_code: 'RUN_CANCELLED' });
      expect((await runOf(second.run_id)).error_message).toContain(third.run_id);
      expect(await ended(first.run_id)).toMatchObject({ status: 'cancelled' });
      expect((await runOf(first.run_id)).error_message).toMatch(/replaced by the run/);
      expect((await ended(third.run_id)).status).toBe('completed');
    });

    test('let a caller wait for half of its time', limit, async () => {
      expectOk(await publish('held', { concurrency: { limit: 1 } }, 2000), 201);
      await begin('held');
      const soon = { 'x-platform-deadline-ms': String(Date.now() + 1000) };
      expectError(await call('held', {}, soon), 429, 'RATE_LIMITED', 'half of the time');
      expect(expectOk(await call('held', {}, {})).data).toEqual({ result: 'done' });
    });

    test('wait no longer when they are cancelled', limit, async () => {
      expectOk(await publish('cancels', { concurrency: { limit: 1 } }), 201);
      const [first, second, third] = [await begin('cancels'), await begin('cancels'), await begin('cancels')];
      expect(expectOk(await send('DELETE', `/runs/${second.run_id}`))).toMatchObject({
        status: 'cancelled',
        held_by: null,
      });
      for (const { run_id } of [first, third]) expect((await ended(run_id)).status).toBe('completed');
    });
  });

  test('a rate lets further runs wait for the next window', limit, async () => {
    expectOk(await publish('rated', { rate: { count: 1, seconds: 2 } }, 10), 201);
    const calls = [await begin('rated'), await begin('rated'), await begin('rated')];
    const begun = [];
    for (const { run_id } of calls) begun.push(Date.parse((await ended(run_id)).started_at));
    expect(new Set(begun.map((at) => Math.floor(at / 2000))).size).toBe(3);
    expectOk(await publish('hourly', { rate: { count: 1, seconds: 3600 } }, 10), 201);
    await begin('hourly');
    const refused = await call('hourly', {}, {});
    expectError(refused, 429, 'RATE_LIMITED', 'The rate of queueing/hourly lets 1 run begin in 3600 seconds');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('of calls that follow each other only the last one runs', limit, async () => {
    expectOk(await publish('debounced', { debounce: { seconds: 3, key: '/order' } }, 10), 201);
    const [first, last] = [await begin('debounced', { order: 1 }), await begin('debounced', { order: 1 })];
    const other = await begin('debounced', { order: 2 });
    expect(last.held_by).toMatchObject({ rule: 'debounce', seconds: 3 });
    expect(await ended(first.run_id)).toMatchObject({ status: 'cancelled', error_code: 'RUN_CANCELLED' });
    expect((await runOf(first.run_id)).error_message).toContain(last.run_id);
    for (const { run_id } of [last, other]) expect((await ended(run_id)).status).toBe('completed');
  });

  test('a webhook has a rule of its own, and answers that its run waits', limit, async () => {
    expectOk(await publish('hooked', {}, 2000), 201);
    const settings = { agent: 'queueing/hooked', type: 'webhook', concurrency: { limit: 1 } };
    const { schedule } = expectOk(await send('POST', '/schedules', settings), 201);
    expect(schedule.concurrency).toEqual({ limit: 1, on_limit: 'queue' });
    const { pathname } = new URL(schedule.webhook_url);
    const post = async () => expectOk(await request(target(), 'POST', pathname, { json: {} }));
    const answers = await Promise.all([post(), post()]);
    expect(answers.map(({ status }) => status).sort()).toEqual(['queued', 'success']);
    for (const { run_id } of answers) expect((await ended(run_id)).status).toBe('completed');
    const changed = { concurrency: null, rate: { count: 5, seconds: 60 }, debounce: { seconds: 5, key: '/a' } };
    const after = expectOk(await send('PATCH', `/schedules/${schedule.id}`, changed)).schedule;
    expect(after).not.toHaveProperty('concurrency');
    expect(after).toMatchObject({ rate: { count: 5, seconds: 60 }, debounce: { seconds: 5, key: '/a' } });
    const wrong = await send('PATCH', `/schedules/${schedule.id}`, { rate: { count: 0, seconds: 60 } });
    expectError(wrong, 400, 'INVALID_INPUT', 'rate.count');
  });

  test.for([
    [{ concurrency: { limit: 0 } }, 'concurrency.limit'],
    [{ concurrency: { limit: 1001 } }, 'concurrency.limit'],
    [{ concurrency: { limit: 1, key: 'customer' } }, 'concurrency.key'],
    [{ concurrency: { limit: 1, key: '/a~2' } }, 'concurrency.key'],
    [{ concurrency: { limit: 1, on_limit: 'wait' } }, 'concurrency.on_limit'],
    [{ concurrency: { limit: 1, often: true } }, 'concurrency'],
    [{ concurrency: true }, 'concurrency'],
    [{ rate: { count: 1 } }, 'rate.seconds'],
    [{ rate: { count: 1, seconds: 86_401 } }, 'rate.seconds'],
    [{ debounce: { seconds: 0 } }, 'debounce.seconds'],
    [{ debounce: { seconds: 1.5 } }, 'debounce.seconds'],
  ] as const)('rules must hold: %j is refused at %s', async ([rules, field]) => {
    expectError(await publish('wrong', rules), 400, 'INVALID_INPUT', field);
  });

  test('a key must be a plain value, and a priority needs a call that does not wait', async () => {
    expectOk(await publish('keyed', { concurrency: { limit: 1, key: '/customer/id' } }, 10), 201);
    expectError(await call('keyed', { customer: { id: [1] } }), 400, 'INVALID_INPUT', 'input/customer/id');
    expectError(await call('keyed', {}, { 'x-platform-priority': '1' }), 400, 'INVALID_INPUT', 'x-platform-priority');
    const high = { prefer: 'respond-async', 'x-platform-priority': '11' };
    expectError(await call('keyed', {}, high), 400, 'INVALID_INPUT', 'x-platform-priority');
  });
}
