import { afterAll, beforeAll, expect, test } from 'vitest';
import { publishCode, request } from '../../test/helpers/platform.ts';
import { describeSite } from './browser.ts';
import { recordRun } from './chain.ts';
import { startCuttingProxy } from './cutting-proxy.ts';
import { usedBy } from './memory.ts';

const CUTS = 8;
const RUNS_A_CUT = 3;
const LINES = 150;
const PRINTS = `
import time
for line in range(${LINES}):
    print("line", line, flush=True)
    time.sleep(0.1)
`;
/** Slightly less than two runs a second for half an hour. */
const ROWS = 3_000;
const ROWS_AT_ONCE = 100;

const proxy = await startCuttingProxy();
afterAll(() => proxy.close());

describeSite(
  'live pages',
  (site) => {
    let workspaceId: string;
    beforeAll(async () => {
      workspaceId = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    });
    /** Browser errors of a cut stream. */
    const expectedErrors = /ERR_(CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_CLOSED)/;

    test('a list whose stream is cut again and again shows every run once', async () => {
      const tenant = crypto.randomUUID();
      const record = () => recordRun(site.target, workspaceId, { tenantId: tenant, result: {} });
      const ids = [await record()];
      // High enough to render all rows, since the table is virtualised.
      const viewport = { width: 1280, height: 1600 };
      const page = await site.open(`/acme/runs?tenant=${tenant}`, { expectedErrors, viewport });
      await page.getByRole('link', { name: ids[0]!.slice(0, 8) }).waitFor();
      await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
      const before = proxy.streams;
      let cuts = 0;
      for (let round = 0; round < CUTS; round++) {
        ids.push(await record());
        await page.getByRole('button', { name: `${ids.length - 1} new`, exact: true }).waitFor();
        cuts += proxy.cut();
        // Recorded while the stream is cut.
        for (let count = 1; count < RUNS_A_CUT; count++) ids.push(await record());
        await page.getByRole('button', { name: `${ids.length - 1} new`, exact: true }).waitFor();
      }
      expect(cuts).toBeGreaterThanOrEqual(CUTS);
      expect(proxy.streams - before).toBeGreaterThanOrEqual(CUTS);
      await page.getByRole('button', { name: `${CUTS * RUNS_A_CUT} new`, exact: true }).click();
      await page.locator(`table[aria-rowcount="${ids.length + 1}"]`).waitFor();
      for (const id of ids) expect(await page.locator(`[data-run="${id}"]`).count()).toBe(1);
      // A pause hides new runs, and resuming shows them.
      await page.keyboard.press('p');
      await page.getByRole('status').filter({ hasText: 'Paused' }).waitFor();
      await record();
      await page.keyboard.press('p');
      await page.getByRole('button', { name: '1 new', exact: true }).waitFor();
    });

    test('a log whose stream is cut again and again has every line once', async ({ skip }) => {
      skip(!site.target.interpreters.python, 'no Python in the sandbox');
      await publishCode(site.client, 'prints', { 'main.py': PRINTS });
      const { body } = await request(site.target, 'POST', '/acme/prints/v1/run', {
        key: site.target.key,
        json: {},
        headers: { prefer: 'respond-async' },
      });
      const page = await site.open(`/acme/runs/${body.run_id}?tab=logs`, { expectedErrors });
      const log = page.getByRole('log');
      let cuts = 0;
      for (const line of [5, 40, 75, 110]) {
        await log.getByText(`line ${line}`, { exact: true }).waitFor();
        cuts += proxy.cut();
      }
      expect(cuts).toBeGreaterThanOrEqual(4);
      await page.getByText('Completed', { exact: true }).first().waitFor();
      await page.getByText(`${LINES} lines`, { exact: true }).waitFor();
      await page.getByLabel('Filter lines').fill('line 14');
      await page.getByText(`11 of ${LINES} lines`).waitFor();
    });

    test('half an hour of live rows leaves nothing behind', { timeout: 240_000 }, async () => {
      const page = await site.open('/acme/runs');
      await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
      const replay = async (rows: number) => {
        for (let done = 0; done < rows; done += ROWS_AT_ONCE) {
          for (let count = 0; count < ROWS_AT_ONCE; count++) await recordRun(site.target, workspaceId, { result: {} });
          await page.getByRole('button', { name: `${ROWS_AT_ONCE} new`, exact: true }).click();
          // Runs that end before the rows are read would be among them, and not new.
          await page.getByRole('button', { name: / new$/ }).waitFor({ state: 'detached' });
        }
      };
      // Fills caches and loads code before measuring.
      await replay(3 * ROWS_AT_ONCE);
      const before = await usedBy(page);
      await replay(ROWS);
      const after = await usedBy(page);
      expect(after.nodes - before.nodes).toBeLessThan(500);
      expect(after.listeners - before.listeners).toBeLessThan(100);
      expect(after.heap - before.heap).toBeLessThan(4_000_000);
    });
  },
  { PLATFORM_PORT: String(proxy.port), PLATFORM_BASE_URL: proxy.url },
);
