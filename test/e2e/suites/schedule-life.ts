import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { expectOk } from '../expect.ts';

/** Life of one schedule from its first run, through its failure, to the next version of its agent. */
export function scheduleLifeSuite(target: () => Target): void {
  describe('the life of a schedule', () => {
    test('it runs, fails, alerts, is disabled, repaired, enabled, and follows its agent', async () => {
      needsModel(target());
      const owner = await target().addUser('sched-life');
      const receiver = await startReceiver();
      onTestFinished(() => receiver.close());
      const client = clientOf(target(), owner.key);
      const workspace = { workspace_id: owner.workspaceId };
      const publish = async (prompt: string) => {
        const agent = { name: 'digest', type: 'prompt' as const, description: 'x', prompt };
        await client.createAgent({ body: { ...agent, supported_providers: ['anthropic'] } });
      };
      await client.putSecret({ params: workspace, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
      await publish('A digest of {{topic}}.');
      // The hour is far enough away that the schedule never fires by itself during the test.
      const hour = (new Date().getUTCHours() + 12) % 24;
      const { schedule } = await client.createSchedule({
        params: workspace,
        body: {
          agent: 'digest',
          cron_expression: `0 ${hour} * * *`,
          input_data: { topic: 'the news' },
          alert_webhook_url: `${receiver.url}/life`,
          alert_on_failure_count: 1,
          max_consecutive_failures: 2,
        },
      });
      const path = `/workspaces/${owner.workspaceId}/schedules/${schedule.id}`;
      const find = async () => expectOk(await request(target(), 'GET', path, { key: owner.key })).schedule;
      const change = async (json: object) => {
        return expectOk(await request(target(), 'PATCH', path, { key: owner.key, json })).schedule;
      };
      let fired = 0;
      const fire = async () => {
        fired++;
        await target().fire(owner.workspaceId, schedule.id);
        await vi.waitFor(async () => expect(await find()).toMatchObject({ run_count: fired }), { timeout: 20_000 });
        return vi.waitFor(
          async () => {
            const now = await find();
            expect(now.last_run_status).toMatch(/^(completed|failed)$/);
            return now;
          },
          { timeout: 20_000 },
        );
      };

      expect(await fire()).toMatchObject({ last_run_status: 'completed', consecutive_failures: 0 });
      await change({ input_data: { topic: '[[llm {"status":400,"message":"no such topic"}]]' } });
      expect(await fire()).toMatchObject({ last_run_status: 'failed', consecutive_failures: 1, enabled: true });
      expect(await fire()).toMatchObject({ consecutive_failures: 2, enabled: false, next_run_at: null });
      await vi.waitFor(() => expect(receiver.at('/life')).toHaveLength(2), { timeout: 20_000 });
      expect(receiver.at('/life').map(({ body }) => [body.consecutive_failures, body.auto_disabled])).toEqual([
        [1, false],
        [2, true],
      ]);
      // Disabled schedules do not follow new versions.
      await publish('A digest of {{topic}}, please.');
      expect(await find()).toMatchObject({ agent_version: 'v1' });
      await change({ input_data: { topic: 'the weather' } });
      expect(await change({ enabled: true })).toMatchObject({ consecutive_failures: 0, auto_disabled_at: null });
      await publish('A short digest of {{topic}}.');
      expect(await find()).toMatchObject({ agent_version: 'v3' });
      expect(await fire()).toMatchObject({ last_run_status: 'completed', run_count: 4 });

      const { runs } = expectOk(await request(target(), 'GET', `${path}/runs`, { key: owner.key }));
      expect(runs.map((run: Record<string, unknown>) => [run.agent_version, run.status, run.trigger_source])).toEqual([
        ['v3', 'completed', 'schedule'],
        ['v1', 'failed', 'schedule'],
        ['v1', 'failed', 'schedule'],
        ['v1', 'completed', 'schedule'],
      ]);
    });
  });
}
