import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DOCS_SITE } from '../../local/http/docs.ts';
import { blocksOf } from '../../test/docs/pages.ts';
import { describeSite, expectAccessible } from './browser.ts';

/** Maximum sizes of all that a page loads, compressed. */
const MAX_PAGE_BYTES = 100_000;
const MAX_API_PAGE_BYTES = 1_000_000;
/** Pages that differ in what they have: a list, code, tables, long lines, an error code, and the API reference. */
const PAGES = ['', 'calls', 'settings', 'deploy', 'errors/TIMEOUT', 'api', 'api/operations/callagent', 'gone'];

describeSite('the documentation', (site) => {
  const open = (slug: string) => site.open(`/../docs/${slug}`, { signedIn: false });

  test('the search answers without leaving the platform', async () => {
    const page = await open('');
    await page.locator('[data-open-modal]').click();
    const field = page.locator('site-search input').first();
    await field.fill('retr');
    const results = page.locator('site-search a[href*="/docs/"]');
    await results.first().waitFor();
    await results.first().click();
    await page.waitForURL((url) => url.pathname.startsWith('/docs/') && url.pathname !== '/docs/');
  });

  test('code tabs of a page follow one choice, also on the next page', async () => {
    const html = readFileSync(join(DOCS_SITE, 'calls.html'), 'utf8');
    const page = await open('calls');
    // Tabs as `withTabs` writes them, on a page that may not have two sets of them.
    const set =
      '<code-tabs><section data-tab="curl"><pre>curl</pre></section><section data-tab="Python"><pre>py</pre></section></code-tabs>';
    await page.locator('.sl-markdown-content').evaluate((element, added) => {
      element.innerHTML = added + added;
    }, set);
    expect(html).toContain('page.');
    const tabs = page.getByRole('tab', { name: 'Python' });
    await page.getByRole('tab', { name: 'curl' }).first().focus();
    await page.keyboard.press('ArrowRight');
    for (const at of [0, 1]) expect(await tabs.nth(at).getAttribute('aria-selected')).toBe('true');
    expect(await page.getByRole('tabpanel').filter({ visible: true }).allInnerTexts()).toEqual(['py', 'py']);
    await expectAccessible(page);
    await page.evaluate("localStorage.getItem('docs-tab')").then((kept) => expect(kept).toBe('Python'));
  });

  test.each(PAGES)('/docs/%s fits four widths and has no fault of access', async (slug) => {
    const page = await open(slug);
    for (const width of [360, 768, 1280, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect({ slug, width, overflow }).toEqual({ slug, width, overflow: Math.min(0, overflow as number) });
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.reload();
      await expectAccessible(page, { colorScheme }, { isOfColours: colorScheme === 'dark' });
    }
  });

  test('a page can be copied as Markdown', async () => {
    const page = await open('calls');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy as Markdown' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toMatch(/^# Calling an agent/);
  });

  test.each(['first-agent', 'first-schedule', 'first-service', 'first-week'])(
    'what readers copy from %s is what the test of the pages types',
    async (name) => {
      const page = await open(`tutorials/${name}`);
      const copied = await page
        .locator('.sl-markdown-content [data-code]')
        .evaluateAll((buttons) => buttons.map((button) => String(button.getAttribute('data-code'))));
      expect(copied.map((code) => code.replaceAll('\x7f', '\n'))).toEqual(
        blocksOf(`docs/tutorials/${name}.md`).map(({ text }) => text.trimEnd()),
      );
    },
  );

  test('the table of contents stands in its place before the page beside it is parsed', async () => {
    const page = await open('settings');
    await page.setViewportSize({ width: 1350, height: 940 });
    const contents = page.locator('.right-sidebar-container');
    const { x } = (await contents.boundingBox())!;
    await page.locator('.main-pane').evaluate((pane) => pane.remove());
    expect((await contents.boundingBox())!.x).toBeCloseTo(x, 0);
  });

  test('a link of an error leads to the page of its code', async () => {
    const response = await fetch(`${site.target.url}/agents`);
    const { error } = (await response.json()) as { error: { docs_url: string } };
    expect(error.docs_url).toBe(`${site.target.url}/docs/errors/UNAUTHORIZED`);
    const shown = await fetch(error.docs_url);
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('UNAUTHORIZED')]);
  });

  test('no page has an inline script or a link to nowhere, or is large', () => {
    const has = (file: string): boolean =>
      statSync(join(DOCS_SITE, file), { throwIfNoEntry: false })?.isFile() ?? false;
    const sizeOf = (path: string): number => {
      const { size } =
        statSync(join(DOCS_SITE, `${path}.br`), { throwIfNoEntry: false }) ?? statSync(join(DOCS_SITE, path));
      return size;
    };
    const faults: string[] = [];
    for (const file of globSync('**/*.html', { cwd: DOCS_SITE })) {
      const html = readFileSync(join(DOCS_SITE, file), 'utf8');
      if (/<script(?![^>]*\bsrc=)[^>]*>[^<]/.test(html) || /\son\w+="/.test(html))
        faults.push(`${file}: an inline script`);
      const needed = [
        ...html.matchAll(/<(?:script|link rel="stylesheet"|img)[^>]*(?:src|href)="\/docs\/([^"]+)"/g),
      ].filter(([tag]) => !tag.includes('loading="lazy"'));
      const bytes = needed.reduce((sum, [, path]) => sum + sizeOf(path!), sizeOf(file));
      if (bytes > (file.startsWith('api') ? MAX_API_PAGE_BYTES : MAX_PAGE_BYTES))
        faults.push(`${file}: ${bytes} bytes`);
      for (const [, path = ''] of html.matchAll(/<a [^>]*href="\/docs\/([^"#?]*)/g)) {
        if (path !== '' && !has(path) && !has(`${path}.html`)) faults.push(`${file}: no page ${path}`);
      }
    }
    expect([...new Set(faults)].slice(0, 20)).toEqual([]);
  });
});
