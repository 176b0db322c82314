import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { deliveryListeners } from '#core/api/listeners.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { announceEnds } from '#core/runs/destinations/announce.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { DONE, PAY, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';

/** What is posted of tasks (`docs/interface/a2a.md#push-notifications`). */

let receiver: Receiver;
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

// biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every type.
type Any = any;
const TOKEN = 'made-up-push-token';
const CREDENTIALS = 'made-up-push-credentials';

async function setUp(turns = [[pay(5)], [DONE]]) {
  const run = await waitingLoop({ custom_tools: [{ ...PAY, approval: 'always' }] }, turns, {
    outboundHosts: ['127.0.0.1'],
  });
  const { deps, send, user } = run;
  const headers = { 'a2a-version': '1.0' };
  const http = async (
    method: string,
    path: string,
    body?: object,
    as?: string,
  ): Promise<{ status: number; body: Any }> => send(method, `/a2a/asker/payer${path}`, body, as ?? user.key, headers);
  const begin = async (taskPushNotificationConfig?: object): Promise<Any> =>
    http('POST', '/message:send', {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: {} }] },
      configuration: { returnImmediately: true, taskPushNotificationConfig },
    });
  const idle = async () => {
    await run.idle();
    await run.next();
  };
  const sweep = async (advance = 20_000) => {
    await deps.clock.advance(advance);
    await announceEnds(deps);
    await sweepDeliveries(deps, deliveryListeners(deps));
  };
  const states = (path: string) => receiver.at(path).map(({ body }) => body.task.status.state as string);
  return { ...run, http, begin, idle, sweep, states };
}

describe('a task with an address', () => {
  test('is posted as it begins, asks, continues and ends, with its secrets, which nothing shows', async () => {
    const { begin, idle, sweep, states, decide, http, deps } = await setUp();
    const config = {
      ...{ id: 'mine', url: `${receiver.url}/task`, token: TOKEN },
      authentication: { scheme: 'Bearer', credentials: CREDENTIALS },
    };
    const begun = await begin(config);
    expect(begun).toMatchObject({ status: 200 });
    const { id } = begun.body.task;
    await idle();
    const swept = async () => {
      await sweep();
      return states('/task');
    };
    await expect.poll(swept, { timeout: 20_000 }).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_INPUT_REQUIRED']);
    expect(receiver.at('/task')[1]!.body.task.status.message.parts[1].data.approvals).toHaveLength(1);
    await decide(`${id}.1.1`, { decision: 'approve' });
    await idle();
    await expect.poll(async () => (await swept()).at(-1), { timeout: 20_000 }).toBe('TASK_STATE_COMPLETED');
    expect(receiver.at('/task').at(-1)!.body.task).toMatchObject({ id, artifacts: [{ parts: [{ text: 'done' }] }] });
    for (const { headers } of receiver.at('/task')) {
      expect(headers).toMatchObject({
        'content-type': 'application/a2a+json',
        'x-a2a-notification-token': TOKEN,
        authorization: `Bearer ${CREDENTIALS}`,
        'webhook-id': expect.stringMatching(/^msg_/),
      });
    }
    const shown = await http('GET', `/tasks/${id}/pushNotificationConfigs`);
    expect(shown.body).toEqual({ configs: [{ id: 'mine', taskId: id, url: config.url }], nextPageToken: '' });
    expect(JSON.stringify([shown.body, deps.lines])).not.toMatch(/made-up-push/);
  });

  test('is posted again until its receiver takes it', async () => {
    const { begin, idle, sweep, states } = await setUp([[DONE]]);
    await begin({ url: `${receiver.url}/500` });
    await idle();
    const ends = async () => {
      await sweep(60_000);
      return states('/500').filter((state) => state === 'TASK_STATE_COMPLETED').length;
    };
    await expect.poll(ends, { timeout: 20_000 }).toBeGreaterThan(1);
    const sent = receiver.at('/500').filter(({ body }) => body.task.status.state === 'TASK_STATE_COMPLETED');
    expect(new Set(sent.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  });

  test('can get it later, also once it has ended, and lose it', async () => {
    const { begin, http, idle, states } = await setUp([[DONE]]);
    const { id } = (await begin()).body.task;
    await idle();
    const path = `/tasks/${id}/pushNotificationConfigs`;
    const made = await http('POST', path, { id: 'late', url: `${receiver.url}/late`, taskId: 'another' });
    expect(made).toEqual({ status: 200, body: { id: 'late', taskId: id, url: `${receiver.url}/late` } });
    await expect.poll(() => states('/late'), { timeout: 20_000 }).toEqual(['TASK_STATE_COMPLETED']);
    expect((await http('GET', `${path}/late`)).body).toEqual(made.body);
    expect(await http('DELETE', `${path}/late`)).toEqual({ status: 200, body: {} });
    expect((await http('GET', `${path}/late`)).status).toBe(404);
    expect(await http('DELETE', `${path}/late`)).toEqual({ status: 200, body: {} });
  });

  test('has at most ten', async () => {
    const { begin, http, idle } = await setUp([[DONE]]);
    const { id } = (await begin()).body.task;
    await idle();
    const add = (name: string) =>
      http('POST', `/tasks/${id}/pushNotificationConfigs`, { id: name, url: `${receiver.url}/many` });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => add(`a${index}`)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(answers.find(({ status }) => status !== 200)!.body.error.message).toContain('maximum');
    expect((await http('GET', `/tasks/${id}/pushNotificationConfigs`)).body.configs).toHaveLength(10);
  });

  test('of a run that no message began is refused', async () => {
    const { call, http } = await setUp([[DONE]]);
    const id = await call();
    const refused = await http('POST', `/tasks/${id}/pushNotificationConfigs`, { url: `${receiver.url}/x` });
    expect(refused).toMatchObject({ status: 400, body: { error: { details: [{ reason: 'UNSUPPORTED_OPERATION' }] } } });
    const unknown = await http('GET', `/tasks/${crypto.randomUUID()}/pushNotificationConfigs`);
    expect(unknown).toMatchObject({ status: 404, body: { error: { details: [{ reason: 'TASK_NOT_FOUND' }] } } });
  });

  test.each([
    ['http://10.0.0.1/x', 'https://'],
    ['https://10.0.0.1/x', 'not an address of the public internet'],
    ['https://127.0.0.2/x', 'not an address of the public internet'],
    ['https://[::1]/x', 'not an address of the public internet'],
    ['https://169.254.169.254/latest', 'not an address of the public internet'],
    ['https://localhost/x', 'not an address of the public internet'],
    ['https://user:word@example.com/x', 'user or a password'],
    ['ftp://example.com', 'https://'],
  ])('at %s is refused before the task begins', async (url, why) => {
    const { begin, http } = await setUp([[DONE]]);
    const refused = await begin({ url, token: TOKEN });
    expect(refused).toMatchObject({ status: 400, body: { error: { details: [{ reason: 'INVALID_PARAMS' }] } } });
    expect(refused.body.error.message).toContain(why);
    expect(refused.body.error.message).not.toContain(TOKEN);
    expect((await http('GET', '/tasks')).body.tasks).toEqual([]);
  });

  test.each([
    [{ token: 'a\r\nx-evil: 1' }, 'token'],
    [{ authentication: { scheme: 'Bearer x' } }, 'scheme'],
    [{ authentication: { scheme: 'Bearer', credentials: 'a\nb' } }, 'credentials'],
    [{ id: 'a#b' }, 'id'],
  ])('with %j is refused', async (more, field) => {
    const { begin } = await setUp([[DONE]]);
    const refused = await begin({ url: 'https://hooks.example.com/x', ...more });
    expect(refused.status).toBe(400);
    expect(refused.body.error.message).toContain(field);
  });

  test('is not posted where a receiver redirects to', async () => {
    const moving = createServer((_, response) =>
      response.writeHead(307, { location: `${receiver.url}/elsewhere` }).end(),
    ).listen(0, '127.0.0.1');
    await new Promise((resolve) => moving.once('listening', resolve));
    const { begin, idle, sweep } = await setUp([[DONE]]);
    await begin({ url: `http://127.0.0.1:${(moving.address() as AddressInfo).port}/x`, token: TOKEN });
    await idle();
    await sweep();
    expect(receiver.at('/elsewhere')).toEqual([]);
    moving.close();
    moving.closeAllConnections();
  });

  test('of a receiver that hangs does not keep the task', async () => {
    const hanging = createServer(() => {}).listen(0, '127.0.0.1');
    await new Promise((resolve) => hanging.once('listening', resolve));
    const { begin, http, next } = await setUp([[DONE]]);
    const begun = await begin({ url: `http://127.0.0.1:${(hanging.address() as AddressInfo).port}/x` });
    await next();
    const task = await http('GET', `/tasks/${begun.body.task.id}`);
    expect(task.body.status.state).toBe('TASK_STATE_COMPLETED');
    hanging.close();
    hanging.closeAllConnections();
  });
});
