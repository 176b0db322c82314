import { describe, expect, test } from 'vitest';
import { clientOf, request, type Target } from '#test/helpers/platform.ts';
import { expectError } from '../expect.ts';

const CREDENTIALS = { api_key: 'a-key', provider: 'anthropic' };

/** Strangers can learn only that another workspace has a private agent of a given name. */
export function probingSuite(target: () => Target): void {
  describe.concurrent('probing', () => {
    test('a stranger is told the same of every version of a private agent, whether it exists or not', async () => {
      const owner = await target().addUser('probe-owner');
      const stranger = await target().addUser('probe-stranger');
      const publish = (prompt: string) =>
        clientOf(target(), owner.key).createAgent({
          body: { name: 'vault', type: 'prompt', description: 'private', prompt } as never,
        });
      await publish('One {{x}}.');
      await publish('Two {{x}}.');
      const call = (path: string, key = stranger.key) =>
        request(target(), 'POST', `/probe-owner/${path}`, { key, json: { llm_credentials: CREDENTIALS } });

      const told = new Set<string>();
      for (const version of ['v1', 'v2', 'v3', 'v9', 'v99999', 'latest', 'dev', 'nonsense']) {
        for (const endpoint of ['run', 'other']) {
          const answer = await call(`vault/${version}/${endpoint}`);
          const { request_id: _, ...error } = expectError(answer, 403, 'FORBIDDEN') as Record<string, unknown>;
          told.add(JSON.stringify(error));
        }
      }
      expect([...told]).toHaveLength(1);
      expect([...told][0]).not.toMatch(/v\d/);
      expectError(await call('nothing/v1/run'), 404, 'NOT_FOUND');
      // Members of the workspace learn which versions exist.
      expectError(await call('vault/v9/run', owner.key), 404, 'NOT_FOUND', 'v9');
    });

    test('documents, schedules and dependencies tell a stranger nothing of it', async () => {
      const owner = await target().addUser('probe-hider');
      const stranger = await target().addUser('probe-looker');
      await target().setPlan(stranger.workspaceId, 'pro');
      const hidden = { name: 'vault', type: 'prompt', description: 'private', prompt: 'One {{x}}.' };
      await clientOf(target(), owner.key).createAgent({ body: hidden as never });
      const ask = (method: string, path: string, json?: object) =>
        request(target(), method as 'GET', path, { key: stranger.key, ...(json && { json }) });
      const told = async (version: string, name = 'vault') => {
        const ref = `probe-hider/${name}`;
        const answers = await Promise.all([
          ask('GET', `/public/agents/${ref}/${version}`),
          ask('GET', `/public/agents/${ref}/${version}/download`),
          ask('GET', `/agents/${ref}/${version}/tree`),
          ask('POST', `/workspaces/${stranger.workspaceId}/schedules`, {
            agent: `${ref}@${version}`,
            schedule_type: 'cron',
            cron_expression: '0 0 * * *',
          }),
          ask('POST', '/agents/validate', {
            name: 'prober',
            type: 'tool',
            description: 'asks',
            required_secrets: [],
            manifest: { manifest_version: 1, max_hops: 5, timeout_ms: 60_000, dependencies: [{ id: ref, version }] },
          }),
        ]);
        return answers.map(({ status, body }) => [
          status,
          JSON.stringify(body)
            .replaceAll(/"request_id":"[^"]*"/g, '')
            .replaceAll(version, 'VERSION')
            .replaceAll(name, 'NAME'),
        ]);
      };
      const ofMissing = await told('v9', 'absent');
      for (const [status, body] of ofMissing) expect(body, String(status)).toMatch(/NAME.*VERSION/);
      expect(await told('v1')).toEqual(ofMissing);
      expect(await told('v7')).toEqual(ofMissing);
    });
  });
}
