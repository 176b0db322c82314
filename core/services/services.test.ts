import { describe, expect, test } from 'vitest';
import { ServiceHostError } from '#core/ports/service-host.ts';
import { serviceWorld } from '#test/helpers/services.ts';
import { addUser } from '#test/helpers/users.ts';
import { bootDocument } from './boot.ts';

const deployed = async (body: object = {}, manifest: object = {}) => {
  const world = await serviceWorld();
  const { id: agent_id } = await world.publish(manifest);
  const { service } = await world.deploy({ agent_id, ...body });
  return { ...world, agent_id, id: service.id as string, service: world.service };
};
const typesOf = ({ service }: { service: { events: { event_type: string }[] } }) =>
  service.events.map(({ event_type }) => event_type);

describe('deploying', () => {
  test('a service is provisioning, has an address, and runs once its app is ready', async () => {
    const world = await serviceWorld();
    const { id: agent_id } = await world.publish();
    const answer = await world.deploy({
      agent_id,
      agent_name: 'bot',
      agent_version: 'latest',
      service_name: 'My Bot',
      min_instances: 1,
      max_instances: 1,
      command: null,
      args: null,
      env: null,
      secret_names: null,
    });
    expect(answer.status).toBe(201);
    expect(answer.service).toMatchObject({
      agent_id,
      agent_name: 'bot',
      agent_version: 'v1',
      service_name: 'My Bot',
      name: 'My Bot',
      desired_state: 'running',
      current_state: 'provisioning',
      state: 'provisioning',
      health_status: 'unknown',
      service_url: expect.stringMatching(/^http:\/\/my-bot-a[0-9a-f]{6}\.localhost$/),
      service_tier: 'standard',
      min_instances: 1,
      max_instances: 1,
      restart_count: 0,
      consecutive_restart_failures: 0,
      max_restart_failures: 5,
      auto_paused_at: null,
      last_restart_at: null,
      last_error: null,
      alert_webhook_url: null,
      auto_update: true,
      env_json: {},
      env: {},
      secret_names: [],
      command: null,
      args: null,
    });
    const { id } = answer.service;
    await world.host.ready(id);
    const running = await world.service('GET', id);
    expect(running.service).toMatchObject({ current_state: 'running', health_status: 'healthy' });
    expect(typesOf(running)).toEqual(['running', 'deployed']);
    expect(world.host.orders).toEqual(['deploy 1']);
  });

  test('refuses what cannot run, and says why', async () => {
    const { publish, send, deploy, host } = await serviceWorld();
    await publish();
    await publish({ name: 'needy', required_secrets: ['DB_URL'] });
    const description = 'x';
    const program = { description, runtime: { command: 'node index.js' }, required_secrets: [] };
    await send('POST', '/agents', { name: 'prompt', type: 'prompt', description, prompt: 'x' });
    await send('POST', '/agents', { name: 'bare', type: 'tool', ...program });
    const loop = { type: 'agent', description, prompt: 'x', loop: {}, required_secrets: [] };
    await send('POST', '/agents', { name: 'loop', ...loop });
    const refusals: [string, object, number, RegExp][] = [
      ['no agent', {}, 400, /agent_id: give the id/],
      ['an unknown agent', { agent_id: 'b0a39cf0-c2f9-4f02-91b6-1f8f2a2eb8a1' }, 404, /no agent version with the id/],
      ['an unknown version', { agent: 'bot', agent_version: 'v7' }, 400, /agent_version: .* has no version v7/],
      ['a prompt', { agent: 'prompt' }, 400, /agent_id: acme\/prompt@v1 has no process .* type prompt/],
      ['no bundle', { agent: 'bare' }, 400, /bare@v1 has no published code bundle/],
      ['a loop with a command', { agent: 'loop', command: 'node a.js' }, 400, /command: acme\/loop@v1 is a loop/],
      ['a missing secret of the agent', { agent: 'needy' }, 400, /not found in workspace: DB_URL\./],
      ['a missing further secret', { agent: 'bot', secret_names: ['A', 'B'] }, 400, /not found in workspace: A, B\./],
      ['a secret in plain', { agent: 'bot', env: { My_Api_Key: 'x' } }, 400, /env: "My_Api_Key" looks like a secret/],
      ['a private key in plain', { agent: 'bot', env: { PRIVATE_KEY: 'x' } }, 400, /"PRIVATE_KEY" looks like a secret/],
      ['PORT', { agent: 'bot', env: { PORT: '1' } }, 400, /env: "PORT" is set by the platform/],
      ['a reserved name', { agent: 'bot', env: { PLATFORM_X: '1' } }, 400, /"PLATFORM_X" is set by the platform/],
      ['the port of the proxy', { agent: 'bot', env: { PLATFORM_HTTP_PORT: '3128' } }, 400, /must not be 3128/],
      ['the port of the gateway', { agent: 'bot', env: { PLATFORM_HTTP_PORT: '8080' } }, 400, /must not be 8080/],
      ['no port', { agent: 'bot', env: { PLATFORM_HTTP_PORT: 'web' } }, 400, /from 1024 to 65535/],
      ['a bad variable', { agent: 'bot', env: { 'A-B': '1' } }, 400, /"A-B" must be letters/],
      ['a secret of the agent in plain', { agent: 'needy', env: { DB_URL: 'x' } }, 400, /env: "DB_URL" is a secret of/],
      ['a bad secret', { agent: 'bot', secret_names: ['a b'] }, 400, /secret_names: "a b" must be upper-case/],
      ['a secret that is reserved', { agent: 'bot', secret_names: ['PORT'] }, 400, /"PORT" is set by the platform/],
      ['more instances than the plan allows', { agent: 'bot', max_instances: 101 }, 400, /allows 100 for one service/],
      ['min over max', { agent: 'bot', min_instances: 3, max_instances: 2 }, 400, /min_instances: 3 is more/],
      ['arguments alone', { agent: 'bot', args: ['x'] }, 400, /args: there is no program/],
      [
        'arguments that a record has no room for',
        { agent: 'bot', command: 'node', args: Array(40).fill('x'.repeat(10_000)) },
        400,
        /args: must have at most 64 KB/,
      ],
      ['a long address', { agent: 'bot', alert_webhook_url: `https://a.example/${'x'.repeat(2048)}` }, 400, /2048/],
      [
        'a private address for alerts',
        { agent: 'bot', alert_webhook_url: 'https://10.0.0.1/' },
        400,
        /alert_webhook_url/,
      ],
      ['51 failures', { agent: 'bot', max_restart_failures: 51 }, 400, /max_restart_failures/],
    ];
    for (const [what, body, status, message] of refusals) {
      const answer = await deploy(body);
      expect([what, answer.status, answer.error?.message]).toEqual([what, status, expect.stringMatching(message)]);
    }
    expect(host.services.size).toBe(0);
  });

  test('the plan limits services, paused ones included, however many are deployed at once', async () => {
    const { deps, owner, publish, deploy, service, send } = await serviceWorld({ defaultPlan: 'pro' });
    const { id: agent_id } = await publish();
    const answers = await Promise.all(Array.from({ length: 8 }, () => deploy({ agent_id })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 201, 201, 403, 403, 403]);
    const { services, total } = await service('GET', '');
    expect([services.length, total]).toEqual([5, 5]);
    const limits = await send('GET', `/workspaces/${owner.workspaceId}/limits`);
    expect(limits.limits.services).toEqual({ used: 5, limit: 5 });
    await service('DELETE', services[0].id);
    expect((await deploy({ agent_id })).status).toBe(201);
    expect(deps.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('where the host keeps no services, a deploy says so', async () => {
    const world = await serviceWorld();
    const { id: agent_id } = await world.publish();
    Object.assign(world.deps, { serviceHost: undefined, serviceLogs: undefined, wakeServices: undefined });
    const answer = await world.deploy({ agent_id });
    expect([answer.status, answer.error.code]).toEqual([422, 'UNPROCESSABLE']);
    expect((await world.service('GET', '')).total).toBe(0);
  });

  test('where another process orders services, a deploy and a change wake it, and the answer does not wait', async () => {
    const { deps, publish, deploy, service, host } = await serviceWorld();
    const { id: agent_id } = await publish();
    const woken: string[] = [];
    Object.assign(deps, { serviceHost: undefined, wakeServices: async (ids: string[]) => void woken.push(...ids) });
    const answer = await deploy({ agent_id });
    const { id } = answer.service;
    expect(answer).toMatchObject({ status: 201, service: { state: 'provisioning', service_url: null } });
    expect((await service('PATCH', id, { env: { A: 'b' } })).status).toBe(200);
    expect((await service('DELETE', id)).service.state).toBe('deleting');
    expect(woken).toEqual([id, id, id]);
    expect(host.orders).toEqual([]);
  });

  test('a final refusal of the host is the answer, and leaves nothing', async () => {
    const { publish, host, deploy, service, deps } = await serviceWorld();
    const { id: agent_id } = await publish();
    host.refusals.push(new ServiceHostError('The name is taken for two more minutes.', { isFinal: true }));
    const answer = await deploy({ agent_id });
    expect([answer.status, answer.error.message]).toEqual([422, 'The name is taken for two more minutes.']);
    expect((await service('GET', '')).total).toBe(0);
    expect(deps.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('an order that fails for a moment is given by the sweep', async () => {
    const { publish, host, deploy, sweep, service } = await serviceWorld();
    const { id: agent_id } = await publish();
    host.refusals.push(new Error('throttled'));
    const answer = await deploy({ agent_id });
    expect(answer.service.current_state).toBe('provisioning');
    expect(host.services.size).toBe(0);
    await sweep();
    expect(host.services.size).toBe(1);
    expect((await service('GET', answer.service.id)).service.service_url).toContain('http://bot-');
  });
});

describe('roles', () => {
  test('members list, look and read logs; owners do the rest', async () => {
    const { service, member, id, agent_id, deploy } = await deployed();
    const by = (method: string, path: string, json?: object) => service(method, path, json, member.key);
    for (const path of ['', id, `${id}/logs`]) expect((await by('GET', path)).status).toBe(200);
    expect((await deploy({ agent_id }, member.key)).status).toBe(403);
    expect((await by('PATCH', id, { env: {} })).status).toBe(403);
    expect((await by('POST', `${id}/restart`)).status).toBe(403);
    expect((await by('POST', `${id}/update-version`)).status).toBe(403);
    expect((await by('DELETE', id)).status).toBe(403);
  });
});

describe('changing', () => {
  test('sets are replaced as a whole, running services restart, and null leaves a member as it is', async () => {
    const { service, host, id, send, owner } = await deployed({ env: { A: '1', B: '2' } });
    await host.ready(id);
    await send('PUT', `/workspaces/${owner.workspaceId}/secrets`, { name: 'DB', value: 'value' });
    const first = await service('PATCH', id, { env: { B: '3' }, secret_names: ['DB'] });
    expect(first.service).toMatchObject({ env_json: { B: '3' }, secret_names: ['DB'], current_state: 'running' });
    const second = await service('PATCH', id, { env: null, secret_names: [], max_restart_failures: null });
    expect(second.service).toMatchObject({ env_json: { B: '3' }, secret_names: [], max_restart_failures: 5 });
    const third = await service('PATCH', id, { env: {} });
    expect(third.service.env_json).toEqual({});
    expect(host.orders).toEqual(['deploy 1', 'restart 2', 'restart 3', 'restart 4']);
    await service('PATCH', id, { env: {}, max_restart_failures: 7, alert_webhook_url: 'https://example.com/x' });
    expect(host.orders).toHaveLength(4);
    const cleared = await service('PATCH', id, { alert_webhook_url: null, command: 'python', args: ['a.py'] });
    expect(cleared.service).toMatchObject({ alert_webhook_url: null, command: 'python', args: ['a.py'] });
    expect(typesOf(await service('GET', id)).slice(0, 4)).toEqual([
      'updated',
      'updated',
      'env_updated',
      'secrets_updated',
    ]);
  });

  test('instances are updated, not just restarted', async () => {
    const { service, host, id } = await deployed();
    const answer = await service('PATCH', id, { min_instances: 2 });
    expect(answer.service).toMatchObject({ min_instances: 2, max_instances: 2 });
    expect(host.orders).toEqual(['deploy 1', 'update 2']);
    expect(host.services.get(id)?.instances).toHaveLength(2);
  });

  test('a change of a paused service waits for its start', async () => {
    const { service, host, id } = await deployed();
    expect((await service('PATCH', id, { desired_state: 'stopped' })).service).toMatchObject({
      desired_state: 'stopped',
      current_state: 'paused',
    });
    await service('PATCH', id, { env: { A: '1' } });
    expect(host.orders).toEqual(['deploy 1', 'pause']);
    await service('PATCH', id, { desired_state: 'running' });
    expect(host.orders).toEqual(['deploy 1', 'pause', 'resume 3']);
    expect((await host.bootDocument(id)).env).toMatchObject({ A: '1' });
  });

  test('a restart keeps the version, reads the secrets anew, and is counted', async () => {
    const { service, host, id } = await deployed();
    await host.crash(id);
    const { service: after } = await service('POST', `${id}/restart`);
    expect(after).toMatchObject({ restart_count: 2, consecutive_restart_failures: 0, agent_version: 'v1' });
    expect(host.orders).toEqual(['deploy 1', 'restart 2']);
  });

  test('delete answers at once, frees the name, and a deleted service can be looked up for a day', async () => {
    const { service, host, id, agent_id, deploy, deps } = await deployed();
    const answer = await service('DELETE', id);
    expect(answer).toMatchObject({ status: 200, deleted: true, service: { service_name: 'bot', state: 'deleted' } });
    const again = await deploy({ agent_id });
    expect(again.service.service_name).toBe('bot');
    expect((await service('DELETE', id)).status).toBe(404);
    expect((await service('POST', `${id}/restart`)).status).toBe(404);
    expect((await service('GET', '')).total).toBe(1);
    expect((await service('GET', '?status=deleted')).services.map((each: { id: string }) => each.id)).toEqual([id]);
    expect((await service('GET', id)).service.state).toBe('deleted');
    expect([...host.services.keys()]).toEqual([again.service.id]);
    await deps.clock.advance(25 * 3_600_000);
    expect((await service('GET', id)).status).toBe(404);
  });
});

describe('lists and logs', () => {
  test('lists are paged, newest first, and filtered by state', async () => {
    const { publish, deploy, service, deps } = await serviceWorld();
    const { id: agent_id } = await publish();
    for (const name of ['one', 'two', 'three']) {
      await deploy({ agent_id, service_name: name });
      await deps.clock.advance(1000);
    }
    const page = await service('GET', '?limit=1&offset=1');
    expect([page.total, page.services[0].service_name]).toEqual([3, 'two']);
    await service('PATCH', page.services[0].id, { desired_state: 'stopped' });
    const paused = await service('GET', '?status=paused');
    expect(paused.services.map((each: { name: string }) => each.name)).toEqual(['two']);
    expect((await service('GET', '?limit=201')).status).toBe(400);
  });

  test('logs are the newest lines, oldest first, from a time and a severity on', async () => {
    const { service, host, id, deps } = await deployed();
    const at = deps.clock.now();
    const { log } = host.services.get(id)!;
    log.push(
      { at, severity: 'INFO', message: 'one' },
      { at: at + 1, severity: 'ERROR', message: 'two' },
      { at: at + 2, severity: 'INFO', message: 'three' },
    );
    const messages = async (query: string) =>
      (await service('GET', `${id}/logs${query}`)).logs.map(({ message }: { message: string }) => message);
    expect(await messages('')).toEqual(['one', 'two', 'three']);
    expect(await messages('?limit=2')).toEqual(['two', 'three']);
    expect(await messages(`?since=${new Date(at + 1).toISOString()}`)).toEqual(['two', 'three']);
    expect(await messages('?severity=warning')).toEqual(['two']);
    expect((await service('GET', `${id}/logs?limit=501`)).status).toBe(400);
    const [line] = (await service('GET', `${id}/logs`)).logs;
    expect(line).toEqual({ timestamp: new Date(at).toISOString(), severity: 'INFO', message: 'one' });
  });
});

describe('what other changes do', () => {
  test('a published version moves the services that follow, once its bundle is there', async () => {
    const { service, host, id, publish, deploy, agent_id } = await deployed();
    const pinned = (await deploy({ agent_id, auto_update: false })).service.id;
    const { upload } = await publish();
    expect(upload.services_updated).toBe(1);
    expect((await service('GET', id)).service.agent_version).toBe('v2');
    expect((await service('GET', pinned)).service.agent_version).toBe('v1');
    expect(host.orders).toEqual(['deploy 1', 'deploy 1', 'restart 2']);
    expect((await service('POST', `${pinned}/update-version`)).updated_to).toBe('v2');
    expect(await service('POST', `${pinned}/update-version`)).not.toHaveProperty('updated_to');
    expect((await host.bootDocument(pinned)).agent).toBe('acme/bot@v2');
    expect(typesOf(await service('GET', id))[0]).toBe('version_updated');
  });

  test('a channel moves the services that follow it, and its canary moves none', async () => {
    const { send, service, publish, deploy, host, owner } = await serviceWorld();
    const { id } = await publish();
    const put = (json: object) => send('PUT', `/agents/${id}/channels/prod`, json);
    await put({ version: 'v1' });
    const { service: made } = await deploy({ agent: `${owner.slug}/bot@prod` });
    expect(made).toMatchObject({ agent_version: 'v1', channel: 'prod', auto_update: true });
    const latest = (await deploy({ agent_id: id })).service.id;
    expect((await publish()).upload.services_updated).toBe(1);
    const shown = async () => (await service('GET', made.id)).service;
    expect((await shown()).agent_version).toBe('v1');
    expect((await service('GET', latest)).service.agent_version).toBe('v2');
    await put({ version: 'v1', canary: { version: 'v2', percent: 100 } });
    expect((await shown()).agent_version).toBe('v1');
    await send('POST', `/agents/${id}/channels/prod/promote`, {});
    expect(await shown()).toMatchObject({ agent_version: 'v2', channel: 'prod' });
    expect((await host.bootDocument(made.id)).agent).toBe('acme/bot@v2');
    await service('PATCH', made.id, { auto_update: false });
    await send('POST', `/agents/${id}/channels/prod/rollback`, {});
    expect((await shown()).agent_version).toBe('v2');
    expect(await shown()).not.toHaveProperty('channel');
    const unknown = await deploy({ agent: `${owner.slug}/bot@nope` });
    expect(unknown.error.message).toBe('agent_version: acme/bot has no channel nope.');
  });

  test('a version that lacks a secret is skipped, and the timeline says why', async () => {
    const { service, id, publish } = await deployed();
    expect((await publish({ required_secrets: ['NEW_ONE'] })).upload.services_updated).toBe(0);
    const { service: after } = await service('GET', id);
    expect(after.agent_version).toBe('v1');
    expect(after.events[0]).toMatchObject({
      event_type: 'version_skipped',
      message: 'Secrets not found in workspace: NEW_ONE.',
    });
    expect((await service('POST', `${id}/update-version`)).error.code).toBe('MISSING_SECRETS');
  });

  test('a changed secret restarts the running services that use it, and the answer names them', async () => {
    const { publish, send, owner, deploy, host, service } = await serviceWorld();
    const secrets = `/workspaces/${owner.workspaceId}/secrets`;
    await send('PUT', secrets, { name: 'DB_URL', value: 'postgres://one' });
    const { id: agent_id } = await publish({ required_secrets: ['DB_URL'] });
    const using = (await deploy({ agent_id, service_name: 'using' })).service;
    const stopped = (await deploy({ agent_id, service_name: 'stopped' })).service;
    await service('PATCH', stopped.id, { desired_state: 'stopped' });
    expect(using.secret_names).toEqual(['DB_URL']);
    const answer = await send('PATCH', `${secrets}/DB_URL`, { value: 'postgres://two' });
    expect(answer).toMatchObject({ updated: true, restarted_services: [{ service_name: 'using' }] });
    expect((await send('PUT', secrets, { name: 'OTHER', value: 'x' })).restarted_services).toEqual([]);
    expect(host.orders).toEqual(['deploy 1', 'deploy 1', 'pause', 'restart 2']);
    expect((await host.bootDocument(using.id)).secrets).toMatchObject({ DB_URL: 'postgres://two' });
  });

  test('a call of an always-on agent says where it runs', async () => {
    const { publish, deploy, send } = await serviceWorld();
    const { id: agent_id } = await publish();
    const before = await send('POST', '/acme/bot/v1/run', {});
    expect([before.status, before.error.code]).toEqual([422, 'UNPROCESSABLE']);
    expect(before.error.hint).toContain('POST /workspaces/');
    const { service } = await deploy({ agent_id });
    const after = await send('POST', '/acme/bot/v1/run', {});
    expect(after.error.message).toContain(`bot at ${service.service_url}`);
  });

  test("an agent of another workspace needs the workspace's grant for its secrets", async () => {
    const { deps, publish, deploy, send, owner, host } = await serviceWorld();
    const author = await addUser(deps, 'author');
    const { id: agent_id } = await publish({ is_public: true, required_secrets: ['DB_URL'] }, author.key);
    await send('PUT', `/workspaces/${owner.workspaceId}/secrets`, { name: 'DB_URL', value: 'postgres://one' });
    const refused = await deploy({ agent_id });
    expect(refused.error.code).toBe('MISSING_SECRETS');
    expect(refused.error.hint).toContain('/grants/author/bot');
    await send('PUT', `/workspaces/${owner.workspaceId}/grants/author/bot`, { version: 'v1', secrets: ['DB_URL'] });
    const { service } = await deploy({ agent_id });
    expect((await host.bootDocument(service.id)).secrets).toMatchObject({ DB_URL: 'postgres://one' });
  });
});

describe('an agent of another workspace', () => {
  const foreign = async (manifest: object = {}) => {
    const world = await serviceWorld();
    const author = await addUser(world.deps, 'author');
    const { id: agent_id } = await world.publish({ is_public: true, ...manifest }, author.key);
    return { ...world, author, agent_id };
  };
  const forbidden = (message: RegExp) => ({
    status: 403,
    error: { code: 'FORBIDDEN', message: expect.stringMatching(message) },
  });

  test('whose source is not shown runs its own command, with no variables but those that it declares', async () => {
    const { deploy, service, agent_id, send, owner, host } = await foreign({ optional_secrets: ['LOCALE', 'DB_URL'] });
    const text = { name: 'NODE_OPTIONS', value: '--import=data:text/javascript,made-up' };
    await send('PUT', `/workspaces/${owner.workspaceId}/secrets`, text);
    await send('PUT', `/workspaces/${owner.workspaceId}/grants/author/bot`, { version: 'v1', secrets: [text.name] });
    expect(await deploy({ agent_id, command: 'cat index.js' })).toMatchObject(forbidden(/^command: .*its own command/));
    expect(await deploy({ agent_id, command: 'cat', args: ['index.js'] })).toMatchObject(forbidden(/^command/));
    for (const name of ['OPENSSL_CONF', 'NODE_EXTRA_CA_CERTS', 'NODE_OPTIONS', 'PYTHONSTARTUP', 'TZDIR', 'locale']) {
      expect(await deploy({ agent_id, env: { [name]: 'main.js' } })).toMatchObject(
        forbidden(new RegExp(`^env: .*only variables that it declares, and ${name} is none`)),
      );
    }
    expect(await deploy({ agent_id, secret_names: [text.name] })).toMatchObject(forbidden(/^secret_names/));
    const env = { LOCALE: 'de', PLATFORM_HTTP_PORT: '4000' };
    await send('PUT', `/workspaces/${owner.workspaceId}/secrets`, { name: 'DB_URL', value: 'postgres://one' });
    await send('PUT', `/workspaces/${owner.workspaceId}/grants/author/bot`, { version: 'v1', secrets: ['DB_URL'] });
    const { service: made } = await deploy({ agent_id, env, secret_names: ['DB_URL'] });
    expect(await host.bootDocument(made.id)).toMatchObject({ env, secrets: { DB_URL: 'postgres://one' } });
    expect(await service('PATCH', made.id, { secret_names: [text.name] })).toMatchObject(forbidden(/^secret_names/));
    expect(await service('PATCH', made.id, { env: { OPENSSL_CONF: 'x' } })).toMatchObject(forbidden(/^env/));
    expect(await service('PATCH', made.id, { command: 'cat index.js' })).toMatchObject(forbidden(/^command/));
    expect(await service('PATCH', made.id, { env: { NODE_OPTIONS: 'x' } })).toMatchObject(forbidden(/^env/));
    expect((await service('GET', made.id)).service).toMatchObject({ command: null, env: { LOCALE: 'de' } });
  });

  test('is not moved to a version that no longer declares a variable of the service', async () => {
    const { deploy, agent_id, publish, author, send, owner, service } = await foreign({ optional_secrets: ['LOCALE'] });
    const { service: made } = await deploy({ agent_id, env: { LOCALE: 'de' } });
    await publish({ is_public: true }, author.key);
    const move = () => send('POST', `/workspaces/${owner.workspaceId}/services/${made.id}/update-version`);
    expect(await move()).toMatchObject(forbidden(/^env: .*LOCALE is none of them/));
    await service('PATCH', made.id, { env: {} });
    expect(await move()).toMatchObject({ status: 200, updated_to: 'v2' });
  });

  test('whose source is shown runs with any command, until it is shown no more', async () => {
    const { deploy, host, agent_id, send, author } = await foreign({ allow_local_download: true });
    const { service } = await deploy({ agent_id, command: 'node index.js' });
    expect(await host.bootDocument(service.id)).toMatchObject({ app: { line: 'node index.js' } });
    await send('PATCH', `/agents/${agent_id}`, { allow_local_download: false }, author.key);
    await expect(host.bootDocument(service.id)).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });

  test('that is public no more starts no further instance', async () => {
    const { deploy, host, agent_id, send, author } = await foreign();
    const { service } = await deploy({ agent_id });
    expect(await host.bootDocument(service.id)).toMatchObject({ agent: 'author/bot@v1' });
    await send('PATCH', `/agents/${agent_id}`, { is_public: false }, author.key);
    await expect(host.bootDocument(service.id)).rejects.toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('no longer public'),
    });
  });
});

describe('boot documents', () => {
  test('have the command, the environment, the secrets and the code of the revision', async () => {
    const { host, id } = await deployed({ env: { A: '1', PLATFORM_HTTP_PORT: '5000' } });
    expect(await host.bootDocument(id)).toMatchObject({
      serviceId: id,
      revision: 1,
      agent: 'acme/bot@v1',
      app: { kind: 'shell', line: 'node index.js' },
      env: { A: '1', PORT: '5000', PLATFORM_HTTP_PORT: '5000', PLATFORM_HEALTH_PORT: '8080', PLATFORM_SERVICE_ID: id },
      secrets: {},
      port: 5000,
      bundle: { key: expect.stringMatching(/^bundles\//), sha256: expect.any(String) },
      egress: 'open',
    });
  });

  test.each<[string, object, object, object]>([
    [
      'command and arguments',
      { command: 'python', args: ['a.py', '-v'] },
      {},
      { kind: 'argv', argv: ['python', 'a.py', '-v'] },
    ],
    ['a command alone', { command: 'python a.py' }, {}, { kind: 'shell', line: 'python a.py' }],
    ['run_command before runtime.command', {}, { run_command: 'node b.js' }, { kind: 'shell', line: 'node b.js' }],
    [
      'the well-known files',
      {},
      { run_mode: 'on_demand', runtime: undefined },
      {
        kind: 'shell',
        line: expect.stringMatching(
          /^\[ -f \.\/main\.py \] && exec python \.\/main\.py; .*exec node \.\/index\.js; .*exit 127$/,
        ),
      },
    ],
  ])('the app is started by %s', async (_, body, manifest, app) => {
    const { host, id } = await deployed(body, manifest);
    expect((await host.bootDocument(id)).app).toEqual(app);
  });

  test('a token is good until the last instance of its revision is gone, and while the service is to run', async () => {
    const { deps, host, id, service } = await deployed();
    const boot = (token: string) => bootDocument(deps, id, token).then(({ revision }) => revision);
    const tokenOf = () => host.services.get(id)!.order.token;
    const refused = { code: 'UNAUTHORIZED' };
    const first = tokenOf();
    const [one] = host.services.get(id)!.instances;
    expect(await boot(first)).toBe(1);
    await expect(boot('made up')).rejects.toMatchObject(refused);
    // The old instance still exists while the new one starts.
    host.keepsOld = true;
    await service('PATCH', id, { env: { A: '1' } });
    expect([await boot(first), await boot(tokenOf())]).toEqual([1, 2]);
    await host.end(one!.report, 'stopped');
    await expect(boot(first)).rejects.toMatchObject(refused);
    expect(await boot(tokenOf())).toBe(2);
    await service('PATCH', id, { desired_state: 'stopped' });
    await expect(boot(tokenOf())).rejects.toMatchObject(refused);
    await service('DELETE', id);
    await expect(boot(first)).rejects.toMatchObject(refused);
  });
});
