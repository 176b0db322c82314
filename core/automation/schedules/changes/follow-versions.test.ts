import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

/** Publishes a version while a request that writes a schedule is in flight, or the other way round. */
async function setUp() {
  const deps = memoryDeps();
  const { key, workspaceId } = await addUser(deps, 'acme');
  const clientOf = (on: AllDeps) => {
    const app = createWebApp(on, routes, allHandlers(on));
    return async (method: string, path: string, json?: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const body = json && JSON.stringify(json);
      const response = await app(new Request(`http://127.0.0.1${path}`, { method, headers, body }));
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as { schedule: { id: string; agent_version: string } };
    };
  };
  const send = clientOf(deps);
  const publish = (by = send) =>
    by('POST', '/agents', { name: 'reporter', type: 'prompt', description: 'x', prompt: 'Report.' });

  let meanwhile: (() => Promise<unknown>) | undefined;
  const isOfSchedule = (operation: TransactOperation) =>
    operation.op === 'put' && operation.item.pk === `WS#${workspaceId}#SCHEDULES`;
  const main = new Proxy(deps.main, {
    get(target, name) {
      const method = Reflect.get(target, name).bind(target);
      if (name !== 'transact') return method;
      return async (operations: readonly TransactOperation[]) => {
        const happens = operations.some(isOfSchedule) ? meanwhile : undefined;
        if (happens) meanwhile = undefined;
        await happens?.();
        return method(operations);
      };
    },
  });
  const slowly = clientOf({ ...deps, main });
  const path = `/workspaces/${workspaceId}/schedules`;
  await publish();
  return {
    path,
    send,
    publish,
    /** Sends a request that waits with its write of a schedule until another version is published. */
    overtaken(...request: Parameters<typeof send>) {
      meanwhile = publish;
      return slowly(...request);
    },
    overtakenPublish() {
      meanwhile = publish;
      return publish(slowly);
    },
  };
}
const DAILY = { agent: 'reporter', cron_expression: '0 9 * * *' };

test('a schedule that is created while a version is published follows it', async () => {
  const { path, overtaken } = await setUp();
  expect((await overtaken('POST', path, DAILY)).schedule.agent_version).toBe('v2');
});

test.each([
  [{ enabled: false }, { enabled: true }],
  [{ auto_update: false }, { auto_update: true }],
])(
  'a schedule with %j that starts to follow by %j while a version is published follows it',
  async (settings, changes) => {
    const { path, send, overtaken } = await setUp();
    const { schedule } = await send('POST', path, { ...DAILY, ...settings });
    expect((await overtaken('PATCH', `${path}/${schedule.id}`, changes)).schedule.agent_version).toBe('v2');
  },
);

test('of two versions that are published concurrently, the newest is followed', async () => {
  const { path, send, overtakenPublish } = await setUp();
  const { schedule } = await send('POST', path, DAILY);
  await overtakenPublish();
  expect((await send('GET', `${path}/${schedule.id}`)).schedule.agent_version).toBe('v3');
});

test('a version that refuses the input of a schedule is named in its timeline, a webhook needs only what it has', async () => {
  const { path, send, publish } = await setUp();
  const of = (answer: unknown) => answer as { schedule: { id: string }; warnings: string[] };
  const typed = (type: string) =>
    send('POST', '/agents', {
      ...{ name: 'reporter', type: 'prompt', description: 'x', prompt: `Report {{topic}} as ${type}.` },
      input_schema: {
        type: 'object',
        required: ['topic', 'place'],
        properties: { topic: { type }, place: { type: 'string' } },
      },
    });
  const daily = of(await send('POST', path, { ...DAILY, input_data: { topic: 'news', place: 'Rome' } }));
  expect(daily.warnings).toEqual([]);
  await typed('string');
  const timeline = async () => {
    const { events } = (await send('GET', `${path}/${daily.schedule.id}/events`)) as unknown as {
      events: { event_type: string; message: string }[];
    };
    return events.filter(({ event_type }) => event_type === 'input_refused').map(({ message }) => message);
  };
  expect(await timeline()).toEqual([]);
  await typed('integer');
  expect(await timeline()).toEqual([
    expect.stringContaining('input schema of acme/reporter@v3, so its runs will fail: topic:'),
  ]);

  const webhook = { agent: 'reporter', webhook: true };
  expect(of(await send('POST', path, webhook)).warnings).toEqual([]);
  expect(of(await send('POST', path, { ...webhook, input_data: { topic: 'news' } })).warnings).toEqual([
    expect.stringMatching(/: topic: [^;]*$/),
  ]);
  expect(of(await send('POST', path, DAILY)).warnings).toEqual([expect.stringContaining('topic')]);
  const mended = await send('PATCH', `${path}/${daily.schedule.id}`, { input_data: { topic: 7, place: 'Rome' } });
  expect(of(mended).warnings).toEqual([]);
  await publish();
});

test('the moment that a run brings is not missed in the input of its schedule', async () => {
  const { path, send } = await setUp();
  const input_schema = { type: 'object', required: ['scheduled_at'], properties: { scheduled_at: { type: 'string' } } };
  const prompt = { type: 'prompt', description: 'x', prompt: 'Report of {{scheduled_at}}.', input_schema };
  await send('POST', '/agents', { name: 'timely', ...prompt });
  const made = (await send('POST', path, { agent: 'timely', cron_expression: '0 9 * * *' })) as unknown as {
    warnings: string[];
  };
  expect(made.warnings).toEqual([]);
});
