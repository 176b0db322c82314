import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../../test/helpers/platform.ts';
import { recordChain, recordRun } from './chain.ts';
import { findChromium } from './chromium.ts';
import { type AuditBrowser, type Flags, scoresOf, signInCookie, startAuditBrowser } from './lighthouse/audit.ts';

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
  let browser: AuditBrowser;
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
    browser = await startAuditBrowser();
    cookie = await signInCookie(target.url, () => client.createSignInCode({ body: {} }));
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await target?.close();
  });

  async function check(name: string, url: string, flags: Flags & { readonly cookie?: string }): Promise<void> {
    const audited = await browser.audit(url, CATEGORIES, flags);
    const scores = scoresOf(audited);
    // Speed depends on the load of the machine, so it is only reported.
    console.info(
      `${name}: ${JSON.stringify(scores)}, ${SPEED.map((id) => `${id} ${audited.audits[id]?.displayValue}`).join(', ')}`,
    );
    expect(audited.finalDisplayedUrl).toBe(url);
    const ofSpeed = new Set(audited.categories.performance!.auditRefs.map(({ id }) => id));
    const faults = Object.values(audited.audits)
      .filter(({ id, score }) => score !== null && score < 1 && !ofSpeed.has(id))
      .map(({ id, title }) => `${id}: ${title}`);
    expect(audited.audits['cumulative-layout-shift']!.numericValue).toBeLessThanOrEqual(MAX_SHIFT);
    expect(scores.accessibility, faults.join('\n')).toBeGreaterThanOrEqual(MIN_SCORE);
    expect(scores['best-practices'], faults.join('\n')).toBeGreaterThanOrEqual(MIN_SCORE);
  }

  test.each([
    ['a workspace', () => ''],
    ['agents', () => '/agents'],
    ['runs', () => '/runs'],
    ['a run', () => `/runs/${run}`],
  ])('the page of %s', { timeout: 240_000 }, async (name, path) => {
    await check(name, `${target.url}/dashboard/acme${path()}`, {
      cookie,
      // Disables simulated throttling.
      throttlingMethod: 'provided',
      // Lighthouse would wait for the event stream, which never ends.
      maxWaitForLoad: 8_000,
    });
  });
});
