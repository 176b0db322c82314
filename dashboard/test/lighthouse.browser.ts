import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import lighthouse, { desktopConfig } from 'lighthouse';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../../test/helpers/platform.ts';
import { recordChain, recordRun } from './chain.ts';
import { findChromium } from './chromium.ts';
import { freePort } from './free-port.ts';

/** Minimum score out of 100, for categories that do not depend on the machine. */
const MIN_SCORE = 95;
/** Maximum layout shift (https://web.dev/articles/cls). The actual value depends on the order of responses. */
const MAX_SHIFT = 0.1;
const SPEED = [
  'cumulative-layout-shift',
  'first-contentful-paint',
  'largest-contentful-paint',
  'total-blocking-time',
  'speed-index',
];
const CATEGORIES = ['performance', 'accessibility', 'best-practices'] as const;

describe.skipIf(findChromium() === undefined)('Lighthouse', () => {
  let target: LocalTarget;
  let browser: ChildProcess;
  let profile: string;
  let port: number;
  let cookie: string;
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
    profile = mkdtempSync(join(tmpdir(), 'lighthouse-'));
    // A separate browser, because Lighthouse must record its navigation from the start.
    const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    const flags = ['--headless=new', `--remote-debugging-port=${port}`, `--user-data-dir=${profile}`, ...asRoot];
    browser = spawn(findChromium()!, flags, { stdio: 'ignore' });
    const isUp = () =>
      fetch(`http://127.0.0.1:${port}/json/version`).then(
        ({ ok }) => ok,
        () => false,
      );
    await vi.waitUntil(isUp, { timeout: 60_000, interval: 100 });
    const { code } = await client.createSignInCode({ body: {} });
    const signIn = await fetch(`${target.url}/auth/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: target.url },
      body: JSON.stringify({ code }),
    });
    cookie = signIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(cookie).toContain('=');
  }, 120_000);
  afterAll(async () => {
    if (browser?.kill()) await once(browser, 'exit');
    if (profile) rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
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
      ...({ port, extraHeaders: { cookie }, onlyCategories, disableStorageReset: true, logLevel: 'silent' } as const),
      // Disables simulated throttling.
      throttlingMethod: 'provided' as const,
      // Lighthouse would wait for the event stream, which never ends.
      maxWaitForLoad: 8_000,
      disableFullPageScreenshot: true,
    };
    const { lhr } = (await lighthouse(url, flags, desktopConfig))!;
    const scores = Object.fromEntries(
      CATEGORIES.map((each) => [each, Math.round(100 * (lhr.categories[each]?.score ?? 0))]),
    );
    // Speed depends on the load of the machine, so it is only reported.
    console.info(
      `${name}: ${JSON.stringify(scores)}, ${SPEED.map((id) => `${id} ${lhr.audits[id]?.displayValue}`).join(', ')}`,
    );
    expect(lhr.finalDisplayedUrl).toBe(url);
    const ofSpeed = new Set(lhr.categories.performance!.auditRefs.map(({ id }) => id));
    const faults = Object.values(lhr.audits)
      .filter(({ id, score }) => score !== null && score < 1 && !ofSpeed.has(id))
      .map(({ id, title }) => `${id}: ${title}`);
    expect(lhr.audits['cumulative-layout-shift']!.numericValue).toBeLessThanOrEqual(MAX_SHIFT);
    expect(scores.accessibility, faults.join('\n')).toBeGreaterThanOrEqual(MIN_SCORE);
    expect(scores['best-practices'], faults.join('\n')).toBeGreaterThanOrEqual(MIN_SCORE);
  });
});
