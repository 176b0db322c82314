import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const DAY = 24 * 3600 * 1000;

// This test needs a manual clock, so it is not in the suite for every host.
test('a superseded version answers for 60 days, then its address is gone', async () => {
  const deps = memoryDeps();
  const app = createWebApp(deps, routes, allHandlers(deps));
  const { key } = await addUser(deps, 'ann');
  const send = async (path: string, body: unknown, method = 'POST') => {
    const response = await app(
      new Request(`http://platform.test${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    );
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes.
    return { status: response.status, headers: response.headers, body: (await response.json()) as any };
  };
  const publish = () => send('/agents', { name: 'aging', type: 'prompt', description: 'x', prompt: 'x' });
  const call = (version: string) => send(`/ann/aging/${version}/run`, {});
  const { agent } = (await publish()).body;
  await publish();
  expect((await send(`/agents/${agent.id}/channels/prod`, { version: 'v1' }, 'PUT')).status).toBe(200);

  await deps.clock.advance(60 * DAY - 1000);
  // No model runs here, so reaching the version is enough.
  expect((await call('v1')).body.error.code).not.toBe('NOT_FOUND');
  expect((await call('v1')).headers.get('sunset')).toBe(new Date(deps.clock.now() + 1000).toUTCString());

  await deps.clock.advance(1001);
  const retired = await call('v1');
  expect(retired.status).toBe(404);
  expect(retired.body.error).toMatchObject({
    code: 'NOT_FOUND',
    is_retryable: false,
    message: expect.stringMatching(/^ann\/aging v1 was retired on .*Z; call \/ann\/aging\/v2\/run\.$/),
  });
  for (const version of ['v2', 'latest']) expect((await call(version)).body.error.code).not.toBe('NOT_FOUND');
  // A channel keeps the version that it names.
  const kept = await call('prod');
  expect(kept.body.error.code).not.toBe('NOT_FOUND');
  expect(kept.headers.get('sunset')).toBeNull();
});
