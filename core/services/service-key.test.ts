import { describe, expect, test } from 'vitest';
import { serviceWorld } from '#test/helpers/services.ts';
import { addUser } from '#test/helpers/users.ts';

const PROMPT = { type: 'prompt', description: 'x', prompt: 'x' };
const DEPENDS = {
  manifest: {
    manifest_version: 1,
    dependencies: [{ id: 'acme/other', version: 'v1' }],
    max_hops: 2,
    timeout_ms: 60_000,
  },
};

/** Creates a service whose agent may call `acme/other@v1`, and the key of its app. */
async function deployed() {
  const world = await serviceWorld();
  for (const name of ['other', 'third']) await world.send('POST', '/agents', { name, ...PROMPT });
  await world.publish(DEPENDS);
  const { service, ...rest } = await world.deploy({ agent: 'bot' });
  if (service === undefined) throw new Error(JSON.stringify(rest));
  const id = service.id as string;
  const key = async () => (await world.host.bootDocument(id)).secrets.PLATFORM_SERVICE_KEY!;
  return { ...world, id, key };
}

describe('the key of a service', () => {
  test('opens calls of the declared dependencies, and the tasks, messages and documents of the workspace', async () => {
    const { send, key, owner } = await deployed();
    const own = await key();
    expect(own).toMatch(/^sk_agent_/);
    // The call reached the prompt, which fails without a provider key.
    expect(await send('POST', '/acme/other/v1/run', {}, own)).toMatchObject({ error: { code: 'LLM_KEY_REQUIRED' } });
    expect(await send('POST', '/acme/third/v1/run', {}, own)).toMatchObject({
      status: 403,
      error: { code: 'DEPENDENCY_NOT_ALLOWED' },
    });
    expect(await send('POST', '/tasks', { title: 'from the service' }, own)).toMatchObject({ status: 201 });
    expect(await send('GET', '/storage', undefined, own)).toMatchObject({ status: 200 });
    for (const path of ['/services', '/secrets', '/runs']) {
      expect(await send('GET', `/workspaces/${owner.workspaceId}${path}`, undefined, own)).toMatchObject({
        status: 403,
        error: { code: 'FORBIDDEN' },
      });
    }
  });

  test('is one for each revision, good as long as its token, and kept nowhere', async () => {
    const { send, key, service, id, host, deps, owner } = await deployed();
    const status = async (bearer: string) => (await send('GET', '/tasks', undefined, bearer)).status;
    const first = await key();
    expect(await key()).toBe(first);
    const [one] = host.services.get(id)!.instances;
    host.keepsOld = true;
    await service('PATCH', id, { env: { A: '1' } });
    const second = await key();
    expect(second).not.toBe(first);
    expect([await status(first), await status(second)]).toEqual([200, 200]);
    await host.end(one!.report, 'stopped');
    expect([await status(first), await status(second)]).toEqual([401, 200]);
    const items = await deps.main.query({ pk: `WS#${owner.workspaceId}#SERVICES`, limit: 10 });
    expect(JSON.stringify(items)).not.toContain(second);
    await service('PATCH', id, { desired_state: 'stopped' });
    expect(await status(second)).toBe(401);
    await service('DELETE', id);
    expect(await status(second)).toBe(401);
  });

  test("of a foreign agent opens the workspace's tasks once they are granted", async () => {
    const world = await serviceWorld();
    const author = await addUser(world.deps, 'author');
    const { id: agent_id } = await world.publish({ is_public: true }, author.key);
    const { service } = await world.deploy({ agent_id });
    const { secrets } = await world.host.bootDocument(service.id);
    const status = async () => (await world.send('GET', '/tasks', undefined, secrets.PLATFORM_SERVICE_KEY!)).status;
    expect(await status()).toBe(403);
    const grants = `/workspaces/${world.owner.workspaceId}/grants/author/bot`;
    await world.send('PUT', grants, { version: 'v1', secrets: [], scopes: ['tasks'] });
    expect(await status()).toBe(200);
  });
});
