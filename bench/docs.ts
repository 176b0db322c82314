import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { setup } from '../dashboard/test/build.ts';
import { launchChromium } from '../dashboard/test/chromium.ts';
import { type AuditBrowser, scoresOf, signInCookie, startAuditBrowser } from '../dashboard/test/lighthouse/audit.ts';
import { ms, type Row } from './harness.ts';
import { median } from './statistics.ts';

/** Pages that differ in what they have, and the largest pages of the API reference. */
const PAGES = [
  '',
  'tutorials/first-agent',
  'storage',
  'calls',
  'services',
  'settings',
  'errors/TIMEOUT',
  'compare',
  'api/operations/callagent',
  'api/operations/createagent',
];
const CATEGORIES = ['performance', 'accessibility', 'best-practices', 'seo'];
const MIN_SCORE = 95;
const MAX_PAINT_MS = 1_000;
const MAX_KB = 100;
const MAX_SEARCH_MS = 100;
const SEARCHES = ['cron timetable', 'retry', 'secret', 'webhook', 'budget', 'idempotency key', 'rate limit', 'publish'];

/** Audits pages of the documentation and the dashboard with the throttled desktop preset of Lighthouse. */
export async function benchDocs(): Promise<Row[]> {
  await setup();
  const target = await startLocalTarget();
  const browser = await startAuditBrowser();
  try {
    const rows: Row[] = [];
    for (const slug of PAGES) {
      rows.push(...(await auditPage(browser, `/docs/${slug}`, target.url, { maxKb: MAX_KB })));
    }
    const cookie = await signInCookie(target.url, () => clientOf(target).createSignInCode({ body: {} }));
    for (const page of ['', '/agents', '/runs'])
      rows.push(...(await auditPage(browser, `/dashboard/acme${page}`, target.url, { cookie })));
    return [...rows, await benchSearch(target)];
  } finally {
    await browser.close();
    await target.close();
  }
}

interface PageOptions {
  /** Maximum of everything that the page loads, compressed. */
  readonly maxKb?: number;
  readonly cookie?: string;
}

/** Returns the worst score of a page, the time to its largest paint, and its size if it is bounded. */
async function auditPage(
  browser: AuditBrowser,
  path: string,
  url: string,
  { maxKb, cookie }: PageOptions,
): Promise<Row[]> {
  // Pages of the documentation are loaded with an empty cache. Pages of the dashboard never stop loading: they have a
  // stream of events. Search engines may not see them.
  const more = cookie === undefined ? { disableStorageReset: false } : { cookie, maxWaitForLoad: 8_000 };
  const categories = CATEGORIES.filter((id) => id !== 'seo' || cookie === undefined);
  const audited = await browser.audit(`${url}${path}`, categories, more);
  const scores = scoresOf(audited);
  const worst = Math.min(...Object.values(scores));
  const paint = audited.audits['largest-contentful-paint']?.numericValue ?? Number.POSITIVE_INFINITY;
  const kb = (audited.audits['total-byte-weight']?.numericValue ?? Number.POSITIVE_INFINITY) / 1000;
  const all = Object.entries(scores).map(([id, score]) => `${id} ${score}`);
  return [
    {
      what: `${path}: the worst score of Lighthouse`,
      ours: all.join(', '),
      beside: '-',
      result: `${worst} of 100`,
      bound: `at least ${MIN_SCORE}`,
      isMet: worst >= MIN_SCORE,
    },
    {
      what: `${path}: largest paint, throttled desktop`,
      ours: ms(paint),
      beside: '-',
      result: ms(paint),
      bound: `under ${MAX_PAINT_MS} ms`,
      isMet: paint < MAX_PAINT_MS,
    },
    ...(maxKb === undefined
      ? []
      : [
          {
            what: `${path}: all that it loads, compressed`,
            ours: `${kb.toFixed(1)} KB`,
            beside: '-',
            result: `${kb.toFixed(1)} KB`,
            bound: `under ${maxKb} KB`,
            isMet: kb < maxKb,
          },
        ]),
  ];
}

/** Returns the median time of a search with its five first results, once the index is loaded. */
async function benchSearch(target: LocalTarget): Promise<Row> {
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    await page.goto(`${target.url}/docs/`);
    const took = await page.evaluate<number[]>(`(async () => {
      const search = await import('/docs/pagefind/pagefind.js');
      await search.init();
      const times = [];
      for (const words of ${JSON.stringify(SEARCHES)}) {
        const began = performance.now();
        const { results } = await search.search(words);
        await Promise.all(results.slice(0, 5).map((result) => result.data()));
        times.push(performance.now() - began);
      }
      return times;
    })()`);
    const middle = median(took);
    return {
      what: 'a search of the documentation, with five results',
      ours: ms(middle),
      beside: `${ms(Math.max(...took))} the slowest of ${SEARCHES.length}`,
      result: ms(middle),
      bound: `under ${MAX_SEARCH_MS} ms`,
      isMet: middle < MAX_SEARCH_MS,
    };
  } finally {
    await browser.close();
  }
}
