import { setTimeout } from 'node:timers/promises';
import { clientOf, startLocalTarget } from '#test/helpers/platform.ts';
import { recordRun } from '../dashboard/test/chain.ts';
import { launchChromium, signedInPage } from '../dashboard/test/chromium.ts';
import { usedBy } from '../dashboard/test/memory.ts';
import { Dashboard } from '../local/http/dashboard.ts';
import type { Row } from './harness.ts';
import { slope } from './statistics.ts';

const RUNS_A_MINUTE = 100;
/** Refreshes of the list per minute. */
const SHOWN_A_MINUTE = 4;
/** Share of the time that is warm-up, which loads caches and code. */
const WARM_UP = 1 / 5;
const MB_A_MINUTE = 0.15;

/** Keeps the list of runs open in a browser while runs begin and end: does it leak rows that it no longer shows? */
export async function benchDashboardSoak(minutes = 30): Promise<Row[]> {
  const target = await startLocalTarget();
  await new Dashboard({ log: target.deps.log, url: `${target.url}/dashboard` }).prepare();
  const browser = await launchChromium();
  try {
    const workspaceId = (await clientOf(target).getOrg({})).id;
    const page = await signedInPage(browser, target, { viewport: { width: 1280, height: 900 } });
    await page.goto(`${target.url}/dashboard/acme/runs`);
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
    const used: Awaited<ReturnType<typeof usedBy>>[] = [];
    const begin = Date.now();
    for (let done = 1; done <= minutes * RUNS_A_MINUTE; done++) {
      await recordRun(target, workspaceId, { result: {} });
      await setTimeout(Math.max(0, begin + (done * 60_000) / RUNS_A_MINUTE - Date.now()));
      if (done % (RUNS_A_MINUTE / SHOWN_A_MINUTE) === 0) await page.getByRole('button', { name: / new$/ }).click();
      if (done % RUNS_A_MINUTE > 0) continue;
      const now = await usedBy(page);
      used.push(now);
      const { heap, nodes, listeners } = now;
      const said = `${(heap / 1e6).toFixed(1)} MB, ${nodes} nodes, ${listeners} listeners`;
      process.stderr.write(`dashboard-soak, minute ${done / RUNS_A_MINUTE}: ${said}\n`);
    }
    const warm = used.slice(Math.ceil(minutes * WARM_UP));
    const growth = warm.length < 2 ? 0 : slope(warm.map(({ heap }) => heap / 1e6));
    const nodes = warm.map((each) => each.nodes);
    return [
      {
        what: `${minutes} minutes of the list of runs with ${RUNS_A_MINUTE} new runs a minute, the last ${warm.length} of them`,
        ours: `${warm.map(({ heap }) => (heap / 1e6).toFixed(1)).join(', ')} MB`,
        beside: `${Math.min(...nodes)} to ${Math.max(...nodes)} nodes`,
        result: `${growth.toFixed(2)} MB a minute`,
        bound: `under ${MB_A_MINUTE} MB a minute`,
        isMet: growth < MB_A_MINUTE,
        // A slope near zero has no meaningful percentage.
        tolerance: 10,
      },
    ];
  } finally {
    await browser.close();
    await target.close();
  }
}
