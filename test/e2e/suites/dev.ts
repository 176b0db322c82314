import { createHash } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { bundleForm, request, type Target, zipOf } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const PROMPT = { type: 'prompt', description: 'says it', prompt: 'Say {{text}}.', supported_providers: ['any'] };
const answering = (text: string) => zipOf({ 'run.sh': `echo '{"said": "${text}"}'\n` });

/** The dev version, which each user changes while writing an agent (`docs/interface/versions.md#dev`). */
export function devSuite(target: () => Target, has: Languages): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);

  async function publishDev(key: string, name: string, zip: Uint8Array, query = 'dev=true') {
    const json = { name, type: 'tool', description: 'x', required_secrets: [], runtime: { command: 'sh run.sh' } };
    const { agent } = expectOk(await call('POST', `/agents?${query}`, { key, json }), 201);
    const form = bundleForm(zip);
    return { agent, upload: expectOk(await call('POST', `/agents/${agent.id}/upload`, { key, body: form })) };
  }

  describe('the version dev', () => {
    test.runIf(has.python || has.node)('is called once it is complete, is replaced, and takes no number', async () => {
      const { key } = await target().addUser('dev-one');
      const run = async () => (await call('POST', '/dev-one/tool/dev/run', { key, json: {} })).body;
      const json = {
        name: 'tool',
        type: 'tool',
        description: 'x',
        required_secrets: [],
        runtime: { command: 'sh run.sh' },
      };
      const incomplete = expectOk(await call('POST', '/agents?dev=true', { key, json }), 201);
      expect(incomplete).toMatchObject({ agent: { version: 'dev', runnable: false }, unchanged: false });
      expect(await run()).toMatchObject({ error: { code: 'NOT_FOUND' } });

      await publishDev(key, 'tool', answering('one'));
      expect(await run()).toMatchObject({ data: { said: 'one' }, metadata: { version: 'dev' } });
      // The previous dev version answers until the next one is complete.
      const next = expectOk(await call('POST', '/agents?dev=true', { key, json }), 201).agent;
      expect(await run()).toMatchObject({ data: { said: 'one' } });
      expectOk(await call('POST', `/agents/${next.id}/upload`, { key, body: bundleForm(answering('two')) }));
      const ran = await run();
      expect(ran).toMatchObject({ data: { said: 'two' } });
      expect(expectOk(await call('GET', `/agents/${next.id}`, { key }))).toMatchObject({
        version: 'dev',
        runnable: true,
      });
      expectError(await call('GET', `/agents/${incomplete.agent.id}`, { key }), 404, 'NOT_FOUND');

      expect(expectOk(await call('GET', '/agents', { key }))).toEqual([]);
      expect(expectOk(await call('GET', '/agents/preview?name=tool', { key })).next_version).toBe('v1');
      expectError(await call('POST', '/dev-one/tool/latest/run', { key, json: {} }), 404, 'NOT_FOUND');
      const { agent } = await publishDev(key, 'tool', answering('published'), 'dev=false');
      expect(agent.version).toBe('v1');
      expect(await run()).toMatchObject({ data: { said: 'two' } });

      expectOk(await call('DELETE', `/agents/${next.id}`, { key }));
      expectError(await call('POST', '/dev-one/tool/dev/run', { key, json: {} }), 404, 'NOT_FOUND');
      expect(expectOk(await call('GET', '/agents', { key }))).toHaveLength(1);
    });

    test('is private to its user, whatever its manifest says', async () => {
      const owner = await target().addUser('dev-owner');
      const colleague = await target().addUser('dev-colleague');
      const invite = { email: 'dev-colleague@example.com', role: 'owner' };
      const path = `/workspaces/${owner.workspaceId}/invite`;
      const invited = expectOk(await call('POST', path, { key: owner.key, json: invite })).invite;
      const token = invited.invite_url.split('/').at(-1);
      expectOk(await call('POST', `/invites/${token}/accept`, { key: colleague.key }));
      const json = { ...PROMPT, name: 'mine', is_public: true };
      const { agent } = expectOk(await call('POST', '/agents?dev=true', { key: owner.key, json }), 201);
      expect(agent).toMatchObject({ is_public: false, runnable: true });

      const workspace = { 'x-workspace-id': owner.workspaceId };
      const stranger = await target().addUser('dev-stranger');
      for (const [key, headers] of [
        [colleague.key, workspace],
        [colleague.key, {}],
        [stranger.key, {}],
      ] as const) {
        const as = { key, headers };
        const body = { text: 'x' };
        expectError(await call('POST', '/dev-owner/mine/dev/run', { ...as, json: body }), 404, 'NOT_FOUND');
        for (const [method, path] of [
          ['GET', `/agents/${agent.id}`],
          ['GET', `/agents/${agent.id}/bundle`],
          ['GET', `/agents/${agent.id}/logs`],
          ['DELETE', `/agents/${agent.id}`],
          ['GET', '/agents/dev-owner/mine/dev/tree'],
          ['GET', '/public/agents/dev-owner/mine/dev'],
          ['GET', '/public/agents/dev-owner/mine/dev/download'],
        ] as const) {
          const answer = await call(method, path, as);
          expect([path, answer.status === 404 || answer.body.error?.code === 'FORBIDDEN']).toEqual([path, true]);
        }
        expectError(await call('POST', `/agents/${agent.id}/fork`, { ...as, json: {} }), 404, 'NOT_FOUND');
      }
      expect(expectOk(await call('GET', '/agents', { key: colleague.key, headers: workspace }))).toEqual([]);
      // The colleague has a separate dev version of the same agent.
      const theirs = expectOk(
        await call('POST', '/agents?dev=true', { key: colleague.key, headers: workspace, json }),
        201,
      );
      expect(theirs.agent.id).not.toBe(agent.id);
      expect(expectOk(await call('GET', `/agents/${agent.id}`, { key: owner.key }))).toEqual(agent);
      // Operations that publish and change versions do not accept dev.
      for (const [method, path, body] of [
        ['PATCH', `/agents/${agent.id}`, { is_public: true }],
        ['POST', `/agents/${agent.id}/keys`, {}],
      ] as const) {
        expectError(await call(method, path, { key: owner.key, json: body }), 404, 'NOT_FOUND');
      }
      expect(expectOk(await call('GET', '/public/agents?search=mine'))).toEqual([]);
    });

    test('cannot be a dependency, a skill, or the agent of a service', async () => {
      const { key, workspaceId } = await target().addUser('dev-deps');
      const { agent } = expectOk(
        await call('POST', '/agents?dev=true', { key, json: { ...PROMPT, name: 'part' } }),
        201,
      );
      const whole = {
        ...PROMPT,
        name: 'whole',
        manifest: {
          manifest_version: 1,
          dependencies: [{ id: 'dev-deps/part', version: 'dev' }],
          max_hops: 1,
          per_call_downstream_cap: 10,
        },
      };
      expectError(await call('POST', '/agents', { key, json: whole }), 400, 'INVALID_INPUT');
      const skilled = { ...PROMPT, name: 'skilled', default_skills: ['dev-deps/part@dev'] };
      expectError(await call('POST', '/agents', { key, json: skilled }), 400, 'INVALID_INPUT');
      const skill = { name: 'how', type: 'skill', description: 'x', prompt: '# How' };
      expectError(await call('POST', '/agents?dev=true', { key, json: skill }), 400, 'INVALID_INPUT', 'no dev version');
      for (const json of [{ agent_id: agent.id }, { agent: 'dev-deps/part@dev' }]) {
        const body = { service_name: 'app', ...json };
        expectError(await call('POST', `/workspaces/${workspaceId}/services`, { key, json: body }), 404, 'NOT_FOUND');
      }
    });

    test.runIf(has.python || has.node)('a schedule fires for its owner, with what is published then', async () => {
      const { key, workspaceId } = await target().addUser('dev-schedule');
      await publishDev(key, 'tool', answering('one'));
      const schedules = `/workspaces/${workspaceId}/schedules`;
      const json = { agent: 'tool@dev', cron_expression: '0 0 1 1 *' };
      const { schedule } = expectOk(await call('POST', schedules, { key, json }), 201);
      expect(schedule).toMatchObject({ agent_version: 'dev', auto_update: false });
      await publishDev(key, 'tool', answering('published'), 'dev=false');
      await publishDev(key, 'tool', answering('two'));
      const fired = expectOk(await call('POST', `${schedules}/${schedule.id}/trigger`, { key, json: {} }));
      expect(fired).toMatchObject({ status: 'success', output: { said: 'two' } });

      const hook = expectOk(await call('POST', schedules, { key, json: { agent: 'tool@dev', webhook: true } }), 201);
      const { pathname } = new URL(hook.schedule.webhook_url);
      const received = await call('POST', pathname, { json: {} });
      expect([received.status, received.body.run_id]).toEqual([received.status, expect.any(String)]);
      await vi.waitFor(
        async () => {
          const { runs } = expectOk(await call('GET', `${schedules}/${hook.schedule.id}/runs`, { key }));
          expect(runs[0]).toMatchObject({ status: 'completed', agent_version: 'dev' });
        },
        { timeout: 20_000 },
      );
      // Another user's dev version cannot be scheduled.
      const other = await target().addUser('dev-scheduler');
      const theirs = { agent: 'dev-schedule/tool@dev', cron_expression: '0 0 1 1 *' };
      const path = `/workspaces/${other.workspaceId}/schedules`;
      expectError(await call('POST', path, { key: other.key, json: theirs }), 404, 'NOT_FOUND');
    });

    test('publishing without a change makes no version', async () => {
      const { key } = await target().addUser('dev-same');
      const json = { ...PROMPT, name: 'same' };
      for (const query of ['unless_unchanged=true', 'unless_unchanged=true&dev=true']) {
        const publish = (body: object) => call('POST', `/agents?${query}`, { key, json: body });
        const first = expectOk(await publish(json), 201);
        expect(expectOk(await publish(json))).toMatchObject({ agent: { id: first.agent.id }, unchanged: true });
        const changed = expectOk(await publish({ ...json, prompt: 'Whisper {{text}}.' }), 201);
        expect(changed.agent.id).not.toBe(first.agent.id);
        expect(changed.unchanged).toBe(false);
      }
      expect(expectOk(await call('GET', '/agents', { key }))).toHaveLength(2);

      const zip = answering('one');
      const { agent } = await publishDev(key, 'tool', zip, 'dev=false');
      const tool = {
        name: 'tool',
        type: 'tool',
        description: 'x',
        required_secrets: [],
        runtime: { command: 'sh run.sh' },
      };
      const withCode = (bytes: Uint8Array) =>
        call(
          'POST',
          `/agents?unless_unchanged=true&bundle_sha256=${createHash('sha256').update(bytes).digest('hex')}`,
          { key, json: tool },
        );
      expect(expectOk(await withCode(zip)).agent.id).toBe(agent.id);
      expect(expectOk(await withCode(answering('two')), 201).agent.version).toBe('v2');
    });
  });
}
