import { expect, onTestFinished, test } from 'vitest';
import { request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess, startWithGreeter } from '#test/helpers/platform-process.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { expectOk } from './expect.ts';

const COUNT = 1000;
const PAGE = 200;
const AT_ONCE = 20;
const MINUTE_MS = 60_000;

interface Shown {
  readonly id: string;
  readonly run_count: number;
  readonly next_run_at: string;
  readonly last_run_status: string | null;
}

/** Runs in real time and idles until the next minute. */
test('after kill -9 in two consecutive minutes each of 1,000 schedules ran exactly once for each minute', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const settings = { ...llm.settings, PLATFORM_DEFAULT_PLAN: 'enterprise' };
  const started = await startWithGreeter(folder, settings);
  const { key, workspaceId } = started;
  let { platform } = started;
  const schedules = `/workspaces/${workspaceId}/schedules`;

  /** The first due minute of each schedule, by id. */
  const firsts = new Map<string, number>();
  const create = async (): Promise<void> => {
    // The delay makes the runs of one minute end at different times.
    const json = { agent: 'main/greet', cron_expression: '* * * * *', input_data: { text: '[[llm {"delayMs":500}]]' } };
    const { schedule } = expectOk(await request(platform, 'POST', schedules, { key, json }), 201);
    // `next_run_at` is unsuitable: an answer sent as the minute began names the following one.
    firsts.set(schedule.id, (Math.floor(Date.parse(schedule.created_at) / MINUTE_MS) + 1) * MINUTE_MS);
  };
  for (let made = 0; made < COUNT; made += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, create));

  const shown = async (): Promise<Shown[]> => {
    const pages: Shown[] = [];
    for (let offset = 0; offset < COUNT; offset += PAGE) {
      const page = await request(platform, 'GET', `${schedules}?limit=${PAGE}&offset=${offset}`, { key });
      pages.push(...expectOk(page).schedules);
    }
    return pages;
  };
  /** Counts the deviations from one run per schedule and minute; all counts must be zero. */
  const lacking = async () => {
    const all = await shown();
    const runs = all.reduce((sum, { run_count }) => sum + run_count, 0);
    const minutesOf = ({ id, next_run_at }: Shown) => (Date.parse(next_run_at) - firsts.get(id)!) / MINUTE_MS;
    return {
      schedules: COUNT - all.length,
      ran: all.filter((schedule) => schedule.run_count !== minutesOf(schedule)).length,
      running: all.filter(({ last_run_status }) => last_run_status === 'running').length,
      counted: runs - expectOk(await request(platform, 'GET', '/usage', { key })).total_calls,
    };
  };

  const lastFirst = Math.max(...firsts.values());
  for (const share of [0.3, 0.3]) {
    await expect.poll(() => Date.now() - lastFirst, { timeout: 2 * MINUTE_MS, interval: 100 }).toBeGreaterThan(0);
    const before = llm.requests.length;
    await expect
      .poll(() => llm.requests.length - before, { timeout: 2 * MINUTE_MS, interval: 20 })
      .toBeGreaterThan(share * COUNT);
    await kill(platform.child);
    platform = await startProcess(folder, settings);
  }

  const nothing = { schedules: 0, ran: 0, running: 0, counted: 0 };
  await expect.poll(lacking, { timeout: MINUTE_MS, interval: 500 }).toEqual(nothing);
  const { total_calls: runs, total_errors: interrupted } = expectOk(await request(platform, 'GET', '/usage', { key }));
  expect(interrupted).toBeGreaterThan(0);
  // No model was asked twice.
  expect(llm.requests.length).toBeLessThanOrEqual(runs);
}, 300_000);
