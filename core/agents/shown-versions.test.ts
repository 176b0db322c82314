import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

test('repeated reads of a version show each change, and owner members only to its own workspace', async () => {
  const deps = memoryDeps();
  const app = createWebApp(deps, routes, allHandlers(deps));
  const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
  const send = async (key: string, method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await app(new Request(`http://platform.test${path}`, init));
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes.
    return { status: response.status, body: (await response.json()) as any };
  };
  const manifest = {
    name: 'reader',
    type: 'prompt',
    description: 'One',
    prompt: 'Read.',
    supported_providers: ['any'],
  };
  const { body: made } = await send(ann.key, 'POST', '/agents', manifest);
  const path = `/agents/${made.agent.id}`;
  const shown = async () => (await send(ann.key, 'GET', path)).body;

  const first = await shown();
  expect(first).toEqual(made.agent);
  expect(await shown()).toEqual(first);
  expect((await send(bob.key, 'GET', path)).status).toBe(404);
  expect((await send('sk_live_wrong', 'GET', path)).status).toBe(401);

  expect((await send(ann.key, 'PATCH', path, { description: 'Two', is_public: true })).status).toBe(200);
  expect(await shown()).toMatchObject({ description: 'Two', is_public: true });
  // The public view of the same version has none of the members for owners.
  const address = '/public/agents/ann/reader/v1';
  for (let i = 0; i < 2; i++) {
    const { body } = await send(bob.key, 'GET', address);
    expect(body).toMatchObject({ description: 'Two' });
    expect(body).not.toHaveProperty('is_public');
  }
  await send(ann.key, 'PATCH', path, { is_public: false });
  expect((await send(bob.key, 'GET', address)).status).toBe(404);
  await send(ann.key, 'DELETE', path);
  expect((await send(ann.key, 'GET', path)).status).toBe(404);
});

test('an installation whose process died is shown as failed after its deadline', async () => {
  const deps = memoryDeps();
  const app = createWebApp({ ...deps }, routes, allHandlers(deps));
  const { key, workspaceId } = await addUser(deps, 'ann');
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const manifest = { name: 'program', type: 'tool', description: 'x', required_secrets: [] };
  const published = await app(
    new Request('http://platform.test/agents', { method: 'POST', headers, body: JSON.stringify(manifest) }),
  );
  const { agent } = (await published.json()) as { agent: { id: string } };
  const install = { status: 'building', layer: 'layers/x', run_id: 'x', deadline: deps.clock.now() + 1000 };
  await deps.main.update({ pk: `WS#${workspaceId}#AGENT#program`, sk: 'V#00001' }, { set: { install } });
  const status = async () => {
    const response = await app(new Request(`http://platform.test/agents/${agent.id}`, { headers }));
    return ((await response.json()) as { environment_status: string }).environment_status;
  };
  for (let i = 0; i < 2; i++) expect(await status()).toBe('building');
  await deps.clock.advance(1001);
  expect(await status()).toBe('failed');
});
