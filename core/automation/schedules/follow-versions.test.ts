import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

/** Publishes a version while a request that writes a schedule is under way, or the other way round. */
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
    /** Sends a request that waits, before it writes a schedule, until another version is published. */
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
