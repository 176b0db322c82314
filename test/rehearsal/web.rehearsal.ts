import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectError, expectOk } from '#test/e2e/expect.ts';
import { callsSuite } from '#test/e2e/suites/calls.ts';
import { durableRunsSuite } from '#test/e2e/suites/durable-runs.ts';
import { eventsSuite } from '#test/e2e/suites/events.ts';
import { idempotencySuite } from '#test/e2e/suites/idempotency.ts';
import { laterSuite } from '#test/e2e/suites/later.ts';
import { streamingSuite } from '#test/e2e/suites/streaming.ts';
import { uploadsSuite } from '#test/e2e/suites/uploads.ts';
import { webhooksSuite } from '#test/e2e/suites/webhooks.ts';
import { type Answer, clientOf, publishCode, request } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import type { Deployment } from './change-set.ts';
import { startRehearsal } from './platform.ts';
import { bundlesWith } from './releases.ts';

/** The stage with `calls: 'web'`: calls and streams of events go through the gateway to one HTTP server. */
const target = await startRehearsal(inject('awsEndpoints'), { name: 'web', calls: 'web' });
const has = { python: target.interpreters.python !== undefined, node: target.interpreters.node !== undefined };
const server = target.callServer!;

callsSuite(() => target, has);
streamingSuite(() => target, has);
idempotencySuite(() => target);
webhooksSuite(() => target);
eventsSuite(() => target, has);
laterSuite(() => target);
uploadsSuite(() => target, has);
durableRunsSuite(() => target);

describe('the server of calls', () => {
  const users: TestUser[] = [];
  const slugs = ['web-one', 'web-two', 'web-three'];
  const call = (user: TestUser, slug: string, json: object, headers: Record<string, string> = {}): Promise<Answer> =>
    request(target, 'POST', `/${slug}/teller/v1/run`, { key: user.key, json, headers });

  beforeAll(async () => {
    for (const slug of slugs) {
      const user = await target.addUser(slug);
      users.push(user);
      const client = clientOf(target, user.key);
      const params = { workspace_id: user.workspaceId };
      await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: `sk-ant-${slug}-0123456789` } });
      const prompt = `I am ${slug}: {{n}} [[llm {"text": "{\\"said\\": \\"${slug}\\"}", "delayMs": 1500}]]`;
      const input_schema = { type: 'object', properties: { n: { type: 'integer' } } } as const;
      const described = { description: 'x', supported_providers: ['anthropic'], input_schema };
      await client.createAgent({ body: { ...described, name: 'teller', type: 'prompt', prompt } });
    }
  });

  test('serves the requests of many tenants at once, each with its own key, answer and record', async () => {
    const numbers = Array.from({ length: 8 }, (_, n) => n);
    const answers = await Promise.all(
      users.flatMap((user, index) =>
        numbers.map(async (n) => ({ user, slug: slugs[index]!, n, answer: await call(user, slugs[index]!, { n }) })),
      ),
    );
    for (const { user, slug, n, answer } of answers) {
      expect(expectOk(answer).data, slug).toEqual({ said: slug });
      const id = answer.headers.get('x-run-id');
      const path = `/workspaces/${user.workspaceId}/runs/${id}`;
      expect(expectOk(await request(target, 'GET', path, { key: user.key }))).toMatchObject({
        status: 'completed',
        input_data: { n },
      });
      const [other] = users.filter((each) => each !== user);
      expectError(await request(target, 'GET', path, { key: other!.key }), 403, 'FORBIDDEN');
    }
    for (const slug of slugs) {
      const asked = target.llm!.requests.filter(({ text }) => text.includes(`I am ${slug}:`));
      expect(new Set(asked.map(({ apiKey }) => apiKey))).toEqual(new Set([`sk-ant-${slug}-0123456789`]));
    }
    expect(server.mostAtOnce).toBeGreaterThan(8);
    expect(server.environments).toBe(1);
  });

  test('refuses senders that are not the gateway', async () => {
    for (const token of ['', 'guess']) {
      const response = await server.send({
        method: 'POST',
        path: `/${slugs[0]}/teller/v1/run`,
        headers: {
          'x-platform-gateway': token,
          authorization: `Bearer ${users[0]!.key}`,
          'content-type': 'application/json',
        },
        body: Buffer.from('{"n": 1}'),
      });
      const body = JSON.parse(Buffer.concat(await response.toArray()).toString());
      expect([response.statusCode, body.error.code]).toEqual([403, 'FORBIDDEN']);
    }
  });

  test('a client cannot pose as the gateway, or from another address', async () => {
    const headers = { 'x-platform-gateway': 'guess', 'x-platform-source': '192.0.2.1' };
    expect(expectOk(await call(users[0]!, slugs[0]!, { n: 1 }, headers)).data).toEqual({ said: slugs[0] });
  });

  test('a call that does not wait is worked on by the function, and the server forgets it', async () => {
    const before = target.lambda.invocations.filter(({ fn }) => fn.endsWith('-calls')).length;
    const { run_id: id } = expectOk(await call(users[0]!, slugs[0]!, { n: 5 }, { prefer: 'respond-async' }), 202);
    const path = `/workspaces/${users[0]!.workspaceId}/runs/${id}`;
    const look = async () => expectOk(await request(target, 'GET', path, { key: users[0]!.key }));
    await expect
      .poll(look, { timeout: 60_000 })
      .toMatchObject({ status: 'completed', output_data: { said: slugs[0] } });
    await target.lambda.settled();
    expect(target.lambda.invocations.filter(({ fn }) => fn.endsWith('-calls')).length).toBe(before + 1);
  });

  test('programs and calls with files have a function of their own, with the same answers', async () => {
    const client = clientOf(target, users[0]!.key);
    await publishCode(client, 'printer', { 'main.sh': '' }, { runtime: { command: 'cat' } });
    const before = target.lambda.invocations.filter(({ fn }) => fn.endsWith('-calls')).length;
    const path = `/${slugs[0]}/printer/v1/run`;
    const json = { text: 'x'.repeat(1000) };
    expect(expectOk(await request(target, 'POST', path, { key: users[0]!.key, json })).data).toEqual(json);
    const form = new FormData();
    form.set('metadata', JSON.stringify({ n: 4 }));
    expectOk(await request(target, 'POST', `/${slugs[0]}/teller/v1/run`, { key: users[0]!.key, body: form }));
    await target.lambda.settled();
    expect(target.lambda.invocations.filter(({ fn }) => fn.endsWith('-calls')).length).toBe(before + 2);
  });

  test('many of the largest bodies at once: some find room, the others are told to come again, and memory has a bound', async () => {
    // Nested arrays take more memory a byte than anything else.
    const body = Buffer.from(`{"n": 1, "more": [${'[],'.repeat(1_300_000)}[]]}`);
    const send = () =>
      request(target, 'POST', `/${slugs[2]}/teller/v1/run`, {
        key: users[2]!.key,
        headers: { 'content-type': 'application/json' },
        body,
      });
    const answers = await Promise.all(Array.from({ length: 24 }, send));
    const counts = Map.groupBy(answers, ({ status }) => status);
    // Those that find room are refused by a later rule: no model reads so much.
    expect([...counts.keys()].sort()).toEqual([422, 429]);
    for (const answer of counts.get(429)!) {
      expectError(answer, 429, 'RATE_LIMITED', 'too busy');
      expect(answer.headers.get('retry-after')).toBe('2');
    }
    expect(server.peakMb).toBeLessThan(2048);
    expectError(await send(), 422, 'UNPROCESSABLE');
  });

  test('when an environment dies, its callers are told, and the next request has another one', async () => {
    const lost = users.map((user, index) => call(user, slugs[index]!, { n: 9 }));
    const asked = () => target.llm!.requests.filter(({ text }) => /I am web-\w+: 9/.test(text)).length;
    await expect.poll(asked, { timeout: 30_000 }).toBe(users.length);
    expect(await server.kill()).toBe(1);
    for (const { status } of await Promise.all(lost)) expect(status).toBe(502);
    expect(expectOk(await call(users[1]!, slugs[1]!, { n: 10 })).data).toEqual({ said: slugs[1] });
  });
});

describe('a release of the server of calls', () => {
  const path = `/workspaces/${crypto.randomUUID()}/events`;
  const ask = async () => (await request(target, 'GET', path, { key: target.key })).status;

  /** Deploys the server with another entry while clients ask, and returns their answers. */
  async function release(entry: string) {
    const statuses: number[] = [];
    let deployment: Deployment | undefined;
    const deploying = target.deploy(bundlesWith({ 'call-server': entry })).then((done) => {
      deployment = done;
    });
    while (deployment === undefined) {
      statuses.push(await ask());
      await setTimeout(100);
    }
    await deploying;
    return { ...(deployment as Deployment), statuses };
  }

  test('that answers 5xx is tried with some requests, and taken back', { timeout: 180_000 }, async () => {
    const refusing = `import { createServer } from 'node:http';
      const [host, port] = process.env.AWS_LAMBDA_HTTP_ENDPOINT.split(':');
      createServer((_, response) => response.writeHead(503).end('{}')).listen(Number(port), host);`;
    const { failure, steps, statuses } = await release(refusing);
    expect(failure).toContain(`rolled back by ${target.platform}-release-faults`);
    expect(new Set(statuses)).toEqual(new Set([403, 503]));
    expect(steps).not.toContain('update AWS::ApiGateway::Stage');
    expect(new Set([await ask(), await ask(), await ask()])).toEqual(new Set([403]));
  });

  test('without faults moves all requests to another endpoint', { timeout: 180_000 }, async () => {
    const { failure, statuses } = await release("// changed\nimport './whole.mjs';");
    expect(failure).toBeUndefined();
    expect(new Set(statuses)).toEqual(new Set([403]));
    expect(target.callServer).not.toBe(server);
    const [before, after] = [server.served, target.callServer!.served];
    expect(await ask()).toBe(403);
    expect([server.served, target.callServer!.served]).toEqual([before, after + 1]);
  });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
