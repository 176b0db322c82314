import { describe, expect, test } from 'vitest';
import { bundleForm, clientOf, request, type Target, zipOf } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';

const MB = 1024 ** 2;

/** Stored resources of a workspace, counted against its plan. */
export function resourcesSuite(target: () => Target): void {
  async function tenant(slug: string) {
    const user = await target().addUser(slug);
    await target().setPlan(user.workspaceId, 'free');
    const call = (method: string, path: string, json?: unknown) =>
      request(target(), method, path, { key: user.key, json });
    const limits = async () => expectOk(await call('GET', `/workspaces/${user.workspaceId}/limits`));
    return { user, call, limits, client: clientOf(target(), user.key) };
  }

  describe.concurrent('resources', () => {
    test('every limit of the plan is shown with what is used of it', async () => {
      const { call, limits } = await tenant('res-all');
      await call('PUT', '/storage/notes/a', { n: 1 });
      await call('POST', '/uploads', { purpose: 'call' });
      const shown = await limits();
      expect(shown.plan).toBe('free');
      expect(shown.limits).toMatchObject({
        daily_calls: { used: 0, limit: 1000 },
        concurrent_calls: { used: 0, limit: 10 },
        schedules: { used: 0, limit: 0 },
        sandbox_timeout_seconds: { used: null, limit: 30 },
        storage_bytes: { used: 7, limit: 10 * MB },
        storage_namespaces: { used: 1, limit: 5 },
        storage_documents: { used: null, limit: 100 },
        agent_versions: { used: 0, limit: 500 },
        agent_bytes: { used: 0, limit: 1024 * MB },
        layer_bytes: { used: null, limit: 1024 * MB },
        upload_bytes: { used: 25 * MB, limit: 100 * MB },
        workspaces: { used: 0, limit: 5 },
      });
    });

    test('the forms that wait hold no more than the plan allows, however many are asked for at once', async () => {
      const { call, limits } = await tenant('res-forms');
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => call('POST', '/uploads', { purpose: 'call' })),
      );
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(4);
      const { error } = answers.find(({ status }) => status !== 201)!.body;
      expect(error).toMatchObject({ code: 'RATE_LIMITED', is_retryable: true });
      expect(error.message).toContain('100 MB');
      expect(error.suggested_wait_time).toBeGreaterThan(3000);
      expect(error.suggested_wait_time).toBeLessThan(4000);
      expect((await limits()).limits.upload_bytes).toEqual({ used: 100 * MB, limit: 100 * MB });
    });

    test('a user creates no more workspaces than the plan of the personal one allows', async () => {
      const { call, limits } = await tenant('res-many');
      const names = Array.from({ length: 9 }, (_, n) => `res-many-${n}`);
      const answers = await Promise.all(names.map((name) => call('POST', '/workspaces', { name })));
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
      for (const answer of answers.filter(({ status }) => status !== 201)) {
        expect(expectError(answer, 429, 'STORAGE_QUOTA_EXCEEDED', '5').is_retryable).toBe(false);
      }
      expect((await limits()).limits.workspaces).toEqual({ used: 5, limit: 5 });
    });

    test('definitions and code of agents are counted, changed definitions and repeated uploads once', async () => {
      const { client, call, limits } = await tenant('res-agents');
      const used = async () => {
        const { agent_versions, agent_bytes } = (await limits()).limits;
        return [agent_versions.used, agent_bytes.used];
      };
      expect(await used()).toEqual([0, 0]);
      const zip = zipOf({ 'main.py': 'print("{}")' });
      const tool = { name: 'counted', type: 'tool' as const, description: 'counts', required_secrets: [] };
      const { agent } = await client.createAgent({ body: tool });
      const upload = await client.uploadBundle({ params: { id: agent.id }, body: bundleForm(zip) });
      const [versions, bytes] = await used();
      expect(versions).toBe(1);
      expect(bytes).toBeGreaterThan(upload.bundle_size_bytes);
      expectOk(await call('PATCH', `/agents/${agent.id}`, { description: 'counts and more' }));
      expect(await used()).toEqual([1, bytes + ' and more'.length]);
      await client.uploadBundle({ params: { id: agent.id }, body: bundleForm(zip) });
      expect(await used()).toEqual([1, bytes + ' and more'.length]);
      await client.createAgent({ body: tool });
      expect((await used())[0]).toBe(2);
      expectOk(await call('DELETE', `/agents/${agent.id}`));
      // The agent can be restored for thirty days.
      expect((await used())[0]).toBe(2);
    });

    test('members see the limits, and nobody else does', async () => {
      const { user, limits } = await tenant('res-mine');
      await limits();
      const stranger = await target().addUser('res-stranger');
      const path = `/workspaces/${user.workspaceId}/limits`;
      expectError(await request(target(), 'GET', path, { key: stranger.key }), 403, 'FORBIDDEN');
    });
  });
}
