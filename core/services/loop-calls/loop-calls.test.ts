import { describe, expect, test } from 'vitest';
import { serviceWorld } from '#test/helpers/services.ts';
import { addUser } from '#test/helpers/users.ts';

const LOOP = { name: 'helper', type: 'agent', description: 'x', prompt: 'x', loop: {}, required_secrets: [] };

/** Creates a service from a loop, and returns functions for requests of its instance. */
async function deployed(manifest: object = {}, body: object = {}) {
  const world = await serviceWorld();
  const { agent } = await world.send('POST', '/agents', { ...LOOP, run_mode: 'always_on', ...manifest });
  const { service } = await world.deploy({ agent: 'helper', ...body });
  const id = service.id as string;
  const token = () => world.host.orderOf(id)!.token;
  const call = (bearer = token(), json: unknown = {}, serviceId = id) =>
    world.send('POST', `/runner/services/${serviceId}/calls`, json, bearer);
  return { ...world, id, agentId: agent.id as string, token, call };
}

describe('a call of an instance', () => {
  test('needs the token of a service that is to run', async () => {
    const { call, service, id, token, owner, member } = await deployed();
    const first = token();
    // The call was authorized, and then fails because the workspace has no provider key.
    expect(await call()).toMatchObject({ status: 400, error: { code: 'LLM_KEY_REQUIRED' } });
    const refused = { status: 401, error: { code: 'UNAUTHORIZED' } };
    for (const wrong of ['x', owner.key, member.key, `${first}x`]) expect(await call(wrong)).toMatchObject(refused);
    expect(await call(first, {}, 'b0a39cf0-c2f9-4f02-91b6-1f8f2a2eb8a1')).toMatchObject(refused);
    await service('PATCH', id, { desired_state: 'stopped' });
    expect(await call(first)).toMatchObject(refused);
    await service('DELETE', id);
    expect(await call(first)).toMatchObject(refused);
  });

  test('opens loops alone', async () => {
    const world = await deployed();
    await world.publish();
    const { service } = await world.deploy({ agent: 'bot' });
    const { token } = world.host.orderOf(service.id)!;
    expect(await world.call(token, {}, service.id)).toMatchObject({
      status: 422,
      error: { message: expect.stringContaining('runs a program') },
    });
  });

  test('is refused for a secret that is gone, and for a version that is', async () => {
    const world = await serviceWorld();
    const secrets = `/workspaces/${world.owner.workspaceId}/secrets`;
    await world.send('PUT', secrets, { name: 'EXTRA', value: 'made-up-value' });
    const { agent } = await world.send('POST', '/agents', LOOP);
    const { service } = await world.deploy({ agent: 'helper', secret_names: ['EXTRA'] });
    const call = () =>
      world.send('POST', `/runner/services/${service.id}/calls`, {}, world.host.orderOf(service.id)!.token);
    expect((await call()).error.code).toBe('LLM_KEY_REQUIRED');
    await world.send('DELETE', `${secrets}/EXTRA`);
    expect((await call()).error).toMatchObject({
      code: 'MISSING_SECRETS',
      message: 'Secrets not found in workspace: EXTRA.',
    });
    await world.send('DELETE', `/agents/${agent.id}?mode=all_versions&confirmation_name=helper`);
    expect((await call()).error).toMatchObject({ message: expect.stringMatching(/acme\/helper v1 .* was deleted/) });
  });

  test('of a foreign agent is refused once that is private', async () => {
    const world = await serviceWorld();
    const author = await addUser(world.deps, 'author');
    const { agent } = await world.send('POST', '/agents', { ...LOOP, is_public: true }, author.key);
    const { service } = await world.deploy({ agent_id: agent.id });
    const call = () =>
      world.send('POST', `/runner/services/${service.id}/calls`, {}, world.host.orderOf(service.id)!.token);
    expect((await call()).error.code).toBe('LLM_KEY_REQUIRED');
    await world.send('PATCH', `/agents/${agent.id}`, { is_public: false }, author.key);
    expect(await call()).toMatchObject({
      status: 403,
      error: { message: expect.stringContaining('no longer public') },
    });
  });

  test('has a body of JSON, which may be no object, as a webhook has', async () => {
    const { call, token } = await deployed({ input_schema: { type: 'object', required: ['data'] } });
    expect((await call(token(), { other: 1 })).error).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('data'),
    });
    expect((await call(token(), [1])).error.code).toBe('LLM_KEY_REQUIRED');
  });
});
