import { expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('notifications', (site) => {
  test('agents that fail repeatedly and schedules that were disabled are counted until they are read', async () => {
    const { client, target } = site;
    const workspace_id = (await client.getSession({})).workspace.id;
    await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    const prompt = { type: 'prompt', description: 'x', prompt: 'Say {{text}}.' } as const;
    for (const name of ['failing', 'scheduled']) {
      await client.createAgent({ body: { ...prompt, name, supported_providers: ['anthropic'] } });
    }
    const text = '[[llm {"status":400}]]';
    for (let count = 0; count < 3; count++) {
      await request(target, 'POST', '/acme/failing/v1/run', { key: target.key, json: { text } });
    }
    const page = await site.open('/acme/agents');
    await page.getByRole('button', { name: 'Notifications, 1 unread' }).click();
    const list = page.getByRole('list', { name: 'Notifications' });
    await list.getByText('failing failed 3 or more times in a row').waitFor();
    await checkAccess(page, () => list.waitFor());
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor();

    const { schedule } = await client.createSchedule({
      params: { workspace_id },
      body: {
        ...{ agent_name: 'scheduled', cron_expression: '0 0 1 1 *', input_data: { text } },
        max_consecutive_failures: 1,
      },
    });
    await target.fire(workspace_id, schedule.id);
    const state = () => client.getSchedule({ params: { workspace_id, schedule_id: schedule.id } });
    await expect.poll(async () => (await state()).schedule.auto_disabled_at, { timeout: 20_000 }).not.toBeNull();
    // Read notifications stay read, and the new one is unread.
    await page.reload();
    await page.getByRole('button', { name: 'Notifications, 1 unread' }).click();
    await list.getByText('failing failed 3 or more times in a row').waitFor();
    await list.getByRole('link', { name: 'Unread: The schedule of scheduled was disabled' }).click();
    await page.waitForURL(site.at(`/acme/schedules/${schedule.id}`));
    await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor();
  });
});
