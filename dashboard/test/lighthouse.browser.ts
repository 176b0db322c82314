import lighthouse, { desktopConfig } from 'lighthouse';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../../test/helpers/platform.ts';
import { recordChain, recordRun } from './chain.ts';
import { findChromium } from './chromium.ts';
import { freePort } from './free-port.ts';

/** Of 100, for what does not depend on the machine. */
const LEAST = 95;
/** What is shown first does not jump: https://web.dev/articles/cls. */
const MOST_SHIFT = 0.1;
const CATEGORIES = ['performance', 'accessibility', 'best-practices'] as const;

describe.skipIf(findChromium() === undefined)('Lighthouse', () => {
  let target: LocalTarget;
  let browser: Awaited<ReturnType<typeof chromium.launchPersistentContext>>;
  let port: number;
  let run: string;

  beforeAll(async () => {
    target = await startLocalTarget();
    const client = clientOf(target);
    const { id } = await client.getOrg({});
    run = await recordChain(target, id, 300);
    for (let count = 0; count < 50; count++) await recordRun(target, id, { result: {} });
    const prompt = { type: 'prompt', description: 'Reports', prompt: 'Report {{topic}}.' } as const;
    await client.createAgent({ body: { ...prompt, name: 'reporter', supported_providers: ['anthropic'] } });
    await client.putSecret({ params: { workspace_id: id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    const schedule = { agent_name: 'reporter', cron_expression: '0 9 * * *', input_data: { topic: 'news' } };
    await client.createSchedule({ params: { workspace_id: id }, body: schedule });
    port = await freePort();
    // It opens a tab of its own in the browser's first context, which has the session, too.
    browser = await chromium.launchPersistentContext('', {
      executablePath: findChromium()!,
      args: [`--remote-debugging-port=${port}`, ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
    });
    const { code } = await client.createSignInCode({ body: {} });
    const page = await browser.newPage();
    await page.goto(`${target.url}/dashboard/login#code=${code}`);
    await page.waitForURL((url) => !url.pathname.endsWith('/login'));
    await page.close();
  });
  afterAll(async () => {
    await browser?.close();
    await target?.close();
  });

  test.each([
    ['a workspace', () => ''],
    ['agents', () => '/agents'],
    ['runs', () => '/runs'],
    ['a run', () => `/runs/${run}`],
  ])('the page of %s', { timeout: 240_000 }, async (name, path) => {
    const url = `${target.url}/dashboard/acme${path()}`;
    const onlyCategories: string[] = [...CATEGORIES];
    const flags = {
      ...({ port, onlyCategories, disableStorageReset: true, logLevel: 'silent' } as const),
      // The machine and its network as they are.
      throttlingMethod: 'provided' as const,
      // The stream of events is never over, for which it would wait.
      maxWaitForLoad: 20_000,
    };
    const { lhr } = (await lighthouse(url, flags, desktopConfig))!;
    const scores = Object.fromEntries(
      CATEGORIES.map((each) => [each, Math.round(100 * (lhr.categories[each]?.score ?? 0))]),
    );
    // How fast a page is depends on what else the machine does: it is told, not checked.
    console.info(`${name}: ${JSON.stringify(scores)}`);
    expect(lhr.finalDisplayedUrl).toBe(url);
    const ofSpeed = new Set(lhr.categories.performance!.auditRefs.map(({ id }) => id));
    const faults = Object.values(lhr.audits)
      .filter(({ id, score }) => score !== null && score < 1 && !ofSpeed.has(id))
      .map(({ id, title }) => `${id}: ${title}`);
    expect(lhr.audits['cumulative-layout-shift']!.numericValue).toBeLessThanOrEqual(MOST_SHIFT);
    expect(scores.accessibility, faults.join('\n')).toBeGreaterThanOrEqual(LEAST);
    expect(scores['best-practices'], faults.join('\n')).toBeGreaterThanOrEqual(LEAST);
  });
});
