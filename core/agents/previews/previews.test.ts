import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { collectAgentGarbage } from '../garbage.ts';
import { agentUse } from '../retention/storage-usage.ts';

const DAY_MS = 24 * 3600_000;

async function setUp() {
  const deps = memoryDeps();
  const app = createWebApp(deps, routes, allHandlers(deps));
  const ann = await addUser(deps, 'ann');
  const send = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${ann.key}`, 'content-type': 'application/json' };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await app(new Request(`http://platform.test${path}`, init));
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes.
    return { status: response.status, body: (await response.json()) as any };
  };
  const publish = async (prompt: string, query = '') => {
    const body = { name: 'echo', type: 'prompt', description: 'x', prompt, supported_providers: ['any'] };
    const { status, body: made } = await send('POST', `/agents${query}`, body);
    return { status, error: made.error, ...made.agent };
  };
  const statusOf = async ({ id }: { readonly id: string }) => (await send('GET', `/agents/${id}`)).status;
  const shown = async (name: string) => (await send('GET', `/agents/ann/echo/${name}/tree`)).status;
  return { deps, ann, send, publish, statusOf, shown };
}

test('a preview ends after seven days, whatever the platform did meanwhile', async () => {
  const { deps, publish, statusOf, shown } = await setUp();
  const first = await publish('one');
  const preview = await publish('two', '?preview=pr-1');
  await deps.clock.advance(7 * DAY_MS - 1000);
  await collectAgentGarbage(deps);
  expect(await shown('pr-1')).toBe(200);
  await deps.clock.advance(2000);
  // Its name ends in time, its version when the collector comes.
  expect(await shown('pr-1')).toBe(404);
  await collectAgentGarbage(deps);
  expect(await statusOf(preview)).toBe(404);
  expect(await statusOf(first)).toBe(200);
  expect((await deps.main.query({ index: 'gsi1', pk: 'PREVIEWS' })).items).toEqual([]);
});

test('a publish without a change lets it end later', async () => {
  const { deps, publish, statusOf } = await setUp();
  const preview = await publish('two', '?preview=pr-1');
  await deps.clock.advance(6 * DAY_MS);
  const again = await publish('two', '?preview=pr-1&unless_unchanged=true');
  expect(again).toMatchObject({ status: 200, id: preview.id });
  await deps.clock.advance(6 * DAY_MS);
  await collectAgentGarbage(deps);
  expect(await statusOf(preview)).toBe(200);
  await deps.clock.advance(2 * DAY_MS);
  await collectAgentGarbage(deps);
  expect(await statusOf(preview)).toBe(404);
});

test('what a push replaces counts for the plan for an hour, and not for a month', async () => {
  const { deps, ann, publish } = await setUp();
  for (let push = 0; push < 5; push++) await publish(`push ${push}`, '?preview=pr-1');
  expect((await agentUse(deps, ann.workspaceId)).versions).toBe(5);
  await deps.clock.advance(3601_000);
  await collectAgentGarbage(deps);
  expect((await agentUse(deps, ann.workspaceId)).versions).toBe(1);
});

test('an agent of previews alone is gone with the last one, and its name is free', async () => {
  const { deps, send, publish } = await setUp();
  const preview = await publish('one', '?preview=pr-1');
  await send('POST', `/agents/${preview.id}/keys`);
  await deps.clock.advance(8 * DAY_MS);
  await collectAgentGarbage(deps);
  expect((await send('GET', '/agents?name=echo')).body).toEqual([]);
  const next = await publish('two');
  expect(next.version).toBe('v2');
  expect((await send('GET', `/agents/${next.id}/keys`)).body.keys).toEqual([]);
});

test('the previews of an agent have a limit, and a name that it has counts once', async () => {
  const { publish } = await setUp();
  for (let number = 1; number <= 50; number++) expect((await publish('x', `?preview=pr-${number}`)).status).toBe(201);
  expect(await publish('x', '?preview=pr-51')).toMatchObject({ status: 409, error: { code: 'CONFLICT' } });
  expect((await publish('y', '?preview=pr-50')).status).toBe(201);
});
