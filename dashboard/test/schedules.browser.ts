import { beforeAll, expect, test } from 'vitest';
import type { NewScheduleEvent } from '../../core/automation/schedules/schedule.ts';
import { ScheduleStore } from '../../core/automation/schedules/store.ts';
import { cronInWords } from '../src/pages/schedules/cron-words.ts';
import { checkAccess, describeSite } from './browser.ts';

test.each([
  ['* * * * *', 'every minute'],
  ['*/15 * * * *', 'every 15 minutes'],
  ['5 * * * *', 'at minute 5 of every hour'],
  ['30 9 * * *', 'at 09:30 every day'],
  ['0 9,17 * * 1-5', 'at 09:00 and 17:00 on Monday to Friday'],
  ['0 0 1 * *', 'at 00:00 on day 1 of the month'],
  ['0 0 1 * MON', 'at 00:00 on day 1 of the month or on Monday'],
  ['*/10 8-18 * jan-mar 6,7', 'every 10 minutes in hour 8 to 18 on Saturday and Sunday in January to March'],
  ['0 */2 * * *', 'at minute 0 of every 2 hours'],
  ['nonsense', 'nonsense'],
])('cron %s is %s', (cron, words) => expect(cronInWords(cron)).toBe(words));

describeSite('schedules', (site) => {
  let workspace_id: string;
  const create = async (agent_name: string, more: object = {}) => {
    const body = { agent_name, cron_expression: '0 9 * * *', input_data: { topic: 'news' }, ...more };
    return (await site.client.createSchedule({ params: { workspace_id }, body })).schedule;
  };
  const change = (id: string, set: object, events: readonly NewScheduleEvent[] = []) =>
    new ScheduleStore(site.target.deps, workspace_id).change(id, () => ({ set, events }));

  beforeAll(async () => {
    const { workspaces } = await site.client.listWorkspaces({});
    workspace_id = workspaces.find(({ slug }) => slug === 'acme')!.id;
    await site.client.putSecret({
      params: { workspace_id },
      body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' },
    });
    for (const name of ['reporter', 'cleaner']) {
      const prompt = { name, type: 'prompt', description: 'x', prompt: 'Report {{topic}}.' } as const;
      const input_schema = { type: 'object', properties: { topic: { type: 'string' } } };
      await site.client.createAgent({ body: { ...prompt, input_schema, supported_providers: ['anthropic'] } });
    }
  });

  test('a schedule is made, watched while its run begins and ends, paused, edited and deleted', async () => {
    const page = await site.open('/acme/schedules');
    await page.getByText('No schedules yet').waitFor();
    await page.getByRole('link', { name: 'New schedule' }).click();
    await page.getByRole('button', { name: /Agent/ }).click();
    await page.getByRole('option', { name: 'reporter' }).click();
    await page.getByRole('textbox', { name: 'Cron expression' }).fill('30 2 * * *');
    await page.getByRole('textbox', { name: 'Time zone' }).fill('Europe/Berlin');
    await page.getByText('Runs at 02:30 every day').waitFor();
    await page.getByRole('columnheader', { name: 'Europe/Berlin' }).waitFor();
    await page.getByRole('textbox', { name: 'topic' }).fill('weather');
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    expect(JSON.parse(await page.getByRole('textbox', { name: 'Input' }).inputValue())).toEqual({ topic: 'weather' });
    await page.getByRole('textbox', { name: 'Input' }).fill('{"topic": ');
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.getByText('This is not valid JSON').waitFor();
    await page
      .getByRole('textbox', { name: 'Input' })
      .fill('{"topic": "[[llm {\\"delayMs\\": 4000, \\"text\\": \\"done\\"}]]"}');
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.waitForURL(/schedules\/[0-9a-f-]{36}$/);
    const id = page.url().split('/').at(-1)!;
    const next = page.getByRole('table', { name: 'Next runs' });
    await expect.poll(() => next.getByRole('row').count()).toBeGreaterThanOrEqual(11);
    await page.getByRole('status').getByText('Live').waitFor();

    // The run was started by the platform's clock, not by the page.
    const runs = page.getByRole('table', { name: 'Runs' });
    await page.getByText('No runs yet').waitFor();
    await site.target.fire(workspace_id, id);
    await runs.getByText('Running').waitFor();
    await runs.getByText('Completed').waitFor();

    await page.getByRole('button', { name: 'Run now' }).click();
    await expect.poll(() => runs.getByText('Completed').count(), { timeout: 20_000 }).toBe(2);
    await page.getByText('The run completed.').waitFor();

    await page.getByRole('button', { name: 'Pause schedule' }).click();
    await page.getByRole('heading', { level: 1 }).getByText('Off').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('heading', { level: 1 }).getByText('On').waitFor();

    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Cron expression' }).fill('61 * * * *');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('alert').getByText('INVALID_INPUT').first().waitFor();
    await page.getByRole('textbox', { name: 'Cron expression' }).fill('0 7 * * 1');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByText('Runs at 07:00 on Monday').waitFor();
    expect(
      (await site.client.getSchedule({ params: { workspace_id, schedule_id: id } })).schedule.cron_expression,
    ).toBe('0 7 * * 1');

    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete schedule' }).click();
    await page.getByText('No schedules yet').waitFor();
  });

  test('a schedule that ends by itself says so, and goes on with a larger number of runs', async () => {
    const page = await site.open('/acme/schedules/new?agent=reporter');
    await page.getByRole('textbox', { name: 'Cron expression' }).fill('30 2 * * *');
    const next = page.getByRole('table', { name: 'Next runs' });
    await page.getByLabel('Ends after runs (optional)').fill('2');
    await expect.poll(() => next.getByRole('row').count()).toBe(3);
    await page.getByLabel('Ends after runs (optional)').fill('1');
    await page.getByLabel('Ends at (optional)').fill('2035-06-01T12:30');
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.waitForURL(/schedules\/[0-9a-f-]{36}$/);
    const schedule_id = page.url().split('/').at(-1)!;
    const show = async () => (await site.client.getSchedule({ params: { workspace_id, schedule_id } })).schedule;
    const local = await page.evaluate('new Date("2035-06-01T12:30").toISOString()');
    expect(await show()).toMatchObject({ max_runs: 1, ends_at: local });
    await page.getByText('0 of 1', { exact: true }).waitFor();
    await site.target.fire(workspace_id, schedule_id);
    await page.getByRole('heading', { level: 1 }).getByText('Ended').waitFor();
    await page.getByRole('note').getByText('after its last run').waitFor();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Ends after runs (optional)').fill('3');
    await page.getByLabel('Ends at (optional)').fill('');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByText('1 of 3', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Enable schedule' }).click();
    await page.getByRole('heading', { level: 1 }).getByText('On').waitFor();
    const enabled = await show();
    expect(enabled).toMatchObject({ enabled: true, max_runs: 3 });
    expect(enabled).not.toHaveProperty('ends_at');
    await site.client.deleteSchedule({ params: { workspace_id, schedule_id } });
  });

  test('input that the agent refuses is warned of', async () => {
    const page = await site.open('/acme/schedules/new?agent=reporter');
    await page.getByRole('textbox', { name: 'Cron expression' }).fill('0 9 * * *');
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    await page.getByRole('textbox', { name: 'Input' }).fill('{"topic": 7}');
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.waitForURL(/schedules\/[0-9a-f-]{36}$/);
    await page.getByText(/input schema of acme\/reporter@v1, so its runs will fail: topic/).waitFor();
    const schedule_id = page.url().split('/').at(-1)!;
    // The warning stays, also in the list, until the input is corrected.
    await page.goto(site.at('/acme/schedules'));
    const warning = page.getByRole('list', { name: 'Warnings' });
    await warning.getByText(/so its runs will fail: topic/).waitFor();
    await page.goto(site.at(`/acme/schedules/${schedule_id}?edit=on`));
    await warning.waitFor();
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    await page.getByRole('textbox', { name: 'Input' }).fill('{"topic": "news"}');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await warning.waitFor({ state: 'detached' });
    await site.client.deleteSchedule({ params: { workspace_id, schedule_id } });
  });

  test('those that were stopped stand first, filters are in the address, and the week says what became of each slot', async () => {
    const stopped = await create('cleaner');
    const busy = await create('reporter', { cron_expression: '0 * * * *', timezone: 'America/New_York' });
    await change(stopped.id, {
      enabled: false,
      autoDisabledAt: new Date().toISOString(),
      autoDisabledReason: 'The secret \u202eBILLING_KEY is missing.',
      nextRunAt: null,
    });
    const at = new Date().setHours(0, 5, 0, 0);
    const noon = new Date(at).toISOString();
    await change(busy.id, {}, [
      { type: 'missed', message: `4 runs were missed, from ${noon} to ${noon}.`, slot: { at, count: 4 } },
      { type: 'skipped_overlap', message: `The run of ${noon} was skipped.`, slot: { at, count: 1 } },
    ]);
    await site.target.fire(workspace_id, busy.id);
    const page = await site.open('/acme/schedules');
    const list = page.getByRole('table', { name: 'Schedules' });
    await expect.poll(() => list.getByRole('row').nth(1).textContent()).toContain('Disabled after 10 failures');
    await list.getByText('The secret \\u{202e}BILLING_KEY is missing.').waitFor();
    const week = page.getByRole('table', { name: 'Runs of the week' });
    await week.getByText('4 missed').waitFor();
    await week.getByText('00:05 skipped').waitFor();
    await week.getByText(/ ran$/).waitFor();
    await page.getByRole('button', { name: 'Next week' }).click();
    await week.getByText('24 due').first().waitFor();
    expect(page.url()).toMatch(/week=\d{4}-\d\d-\d\d/);
    await page.getByLabel('Agent').fill('clean');
    await page.waitForURL(/q=clean/);
    await expect.poll(() => list.getByRole('row').count()).toBe(2);
    await page.reload();
    await expect.poll(() => list.getByRole('row').count()).toBe(2);
    expect(await list.getByRole('row').nth(1).textContent()).toContain('cleaner');
    await list.getByRole('button', { name: 'Enable cleaner' }).click();
    await list.getByText('Disabled after 10 failures').waitFor({ state: 'detached' });
    expect(page.url()).toContain('/acme/schedules?');
    const { schedule } = await site.client.getSchedule({ params: { workspace_id, schedule_id: stopped.id } });
    expect(schedule).toMatchObject({ enabled: true, consecutive_failures: 0, auto_disabled_reason: null });
  });

  test("a webhook's address is shown once, and a new one takes its place", async () => {
    const page = await site.open('/acme/schedules/new?agent=reporter');
    await page.getByRole('button', { name: /Starts/ }).click();
    await page.getByRole('option', { name: 'By webhook' }).click();
    await page.getByRole('button', { name: 'Create schedule' }).click();
    const shown = page.getByRole('dialog', { name: 'Webhook URL' }).locator('code');
    const first = (await shown.textContent())!;
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Rotate URL' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate URL' }).click();
    const second = (await shown.textContent())!;
    expect(second).not.toBe(first);
    expect((await fetch(first, { method: 'POST', body: '{}' })).status).not.toBe(200);
    expect((await fetch(second, { method: 'POST', body: '{"topic": "x"}' })).status).toBe(200);
    expect(await page.evaluate('document.querySelector("main").outerHTML')).not.toContain(second);
  });

  test.each([
    ['the list', (_: string) => '/acme/schedules'],
    ['a schedule', (id: string) => `/acme/schedules/${id}`],
    ['its form', (id: string) => `/acme/schedules/${id}?edit=yes`],
    ['a new one', (_: string) => '/acme/schedules/new'],
  ])('%s can be used by everybody', async (_, path) => {
    const { id } = await create('reporter');
    const page = await site.open(path(id));
    await checkAccess(page, () => page.getByRole('table').first().waitFor());
  });
});
