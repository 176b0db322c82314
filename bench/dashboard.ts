import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { recordChain, recordRun } from '../dashboard/test/chain.ts';
import { launchChromium, type Page, signedInPage } from '../dashboard/test/chromium.ts';
import { ms, ROUNDS, type Row, timed } from './harness.ts';
import { median } from './statistics.ts';

const INTERACTIVE_STEPS = 5_000;
const SCROLLED_STEPS = 10_000;
const INTERACTIVE_MS = 1_000;
const FRAME_MS = 50;
const OUTPUT_BYTES = 50_000_000;
/** Pixels per scrolled frame, and number of frames. */
const SCROLL = { by: 120, frames: 240 };

/** Measures the page of a run of maximum size in a local Chromium. */
export async function benchDashboard(): Promise<Row[]> {
  const target = await startLocalTarget();
  const browser = await launchChromium();
  try {
    const page = await signedInPage(browser, target, { viewport: { width: 1280, height: 900 } });
    const workspaceId = (await clientOf(target).getOrg({})).id;
    return [
      await benchOpening(page, target, await recordChain(target, workspaceId, INTERACTIVE_STEPS)),
      await benchScrolling(page, target, await recordChain(target, workspaceId, SCROLLED_STEPS)),
      await benchOutput(
        page,
        target,
        await recordRun(target, workspaceId, {
          result: { output: { lines: 'x'.repeat(OUTPUT_BYTES).match(/.{1,99}/g)! } },
        }),
      ),
    ];
  } finally {
    await browser.close();
    await target.close();
  }
}

/** Returns the time from a click on the run until the page shows its lines and responds to a key. */
async function benchOpening(page: Page, target: LocalTarget, id: string): Promise<Row> {
  const took: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await page.goto(`${target.url}/dashboard/acme/runs`);
    const link = page.getByRole('link', { name: id.slice(0, 8) });
    await link.waitFor();
    took.push(
      await timed(async () => {
        await link.press('Enter');
        const grid = page.getByRole('treegrid');
        await grid.press('ArrowDown');
        await grid.locator('[aria-selected="true"][aria-rowindex="2"]').waitFor();
      }),
    );
  }
  const middle = median(took);
  return {
    what: `the page of a run with ${INTERACTIVE_STEPS} steps, until it answers a key`,
    ours: ms(middle),
    beside: '',
    result: ms(middle),
    bound: `at most ${INTERACTIVE_MS} ms`,
    isMet: middle <= INTERACTIVE_MS,
  };
}

/** Scrolls as a wheel does, and measures the duration of each frame. */
async function benchScrolling(page: Page, target: LocalTarget, id: string): Promise<Row> {
  await page.goto(`${target.url}/dashboard/acme/runs/${id}`);
  await page.getByRole('treegrid').waitFor();
  const frames = await page.evaluate<number[]>(`new Promise((done) => {
    const box = document.querySelector('[role="treegrid"]').parentElement.parentElement;
    const frames = [];
    let last;
    const step = (now) => {
      if (last !== undefined) frames.push(now - last);
      last = now;
      box.scrollTop += ${SCROLL.by};
      if (frames.length === ${SCROLL.frames}) done(frames);
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`);
  const longest = Math.max(...frames);
  return {
    what: `the longest of ${SCROLL.frames} frames while ${SCROLLED_STEPS} steps are scrolled`,
    ours: ms(longest),
    beside: `${ms(median(frames))} in the middle`,
    result: ms(longest),
    bound: `at most ${FRAME_MS} ms`,
    isMet: longest <= FRAME_MS,
  };
}

/** Returns how long the page is blocked while a large output opens. */
async function benchOutput(page: Page, target: LocalTarget, id: string): Promise<Row> {
  await page.goto(`${target.url}/dashboard/acme/runs/${id}`);
  await page.getByRole('treegrid').waitFor();
  await page.evaluate(`
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({ type: 'longtask' });
  `);
  const opened = await timed(async () => {
    await page.getByRole('link', { name: 'Output' }).click();
    await page.getByText('The first 262.1 kB of').waitFor();
  });
  const longest = await page.evaluate<number>('window.longest');
  return {
    what: `the longest task of the page while an output of ${OUTPUT_BYTES / 1e6} MB is opened`,
    ours: ms(longest),
    beside: `${ms(opened)} until it is there`,
    result: ms(longest),
    bound: 'at most 200 ms',
    isMet: longest <= 200,
  };
}
