import axeCore, { type AxeResults, type RunOptions } from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import type { Client } from '../../core/api/client.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../../test/helpers/platform.ts';
import { findChromium, launchChromium } from './chromium.ts';

/** A real platform and a real browser. */
export interface Site {
  readonly target: LocalTarget;
  /** Client of the owner of the workspace `acme`; {@link Site.open} signs browsers in as this user. */
  readonly client: Client;
  /** Returns the URL of a page: `at('/acme/agents')`. */
  at(path: string): string;
  /**
   * Opens `path` in a new browser, signed in by a one-time link unless `signedIn` is false. Forbidden behaviour fails
   * the test: see {@link describeSite}.
   */
  open(
    path: string,
    options?: BrowserContextOptions & {
      readonly signedIn?: boolean;
      /** Expected console errors. */
      readonly expectedErrors?: RegExp;
    },
  ): Promise<Page>;
}

/** Chrome logs every error response; the pages display those. */
const ANSWERED = /^Failed to load resource: the server responded with a status of/;

/**
 * Runs tests in a real Chromium against a real platform with the scripted model; skipped if there is no Chromium. A
 * test fails if a page violates its Content-Security-Policy, logs an error, throws, or contacts another origin.
 */
export function describeSite(name: string, tests: (site: Site) => void, settings: Record<string, string> = {}): void {
  describe.skipIf(findChromium() === undefined)(name, () => {
    let target: LocalTarget;
    let browser: Browser;
    let problems: string[] = [];
    const contexts: { close(): Promise<void> }[] = [];

    beforeAll(async () => {
      target = await startLocalTarget(settings);
      browser = await launchChromium();
    }, 120_000);
    afterAll(async () => {
      await browser?.close();
      await target?.close();
    });
    afterEach(async () => {
      await Promise.all(contexts.splice(0).map((context) => context.close()));
      const found = problems;
      problems = [];
      expect(found).toEqual([]);
    });

    tests({
      get target() {
        return target;
      },
      get client() {
        return clientOf(target);
      },
      at: (path) => `${target.url}/dashboard${path}`,
      async open(path, { signedIn = true, expectedErrors, ...options } = {}) {
        const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
        contexts.push(context);
        context.setDefaultTimeout(20_000);
        const page = await context.newPage();
        page.on('console', (message) => {
          const text = message.text();
          if (message.type() !== 'error' || ANSWERED.test(text) || expectedErrors?.test(text)) return;
          problems.push(`console: ${text}`);
        });
        page.on('pageerror', (error) => {
          if (!expectedErrors?.test(error.message)) problems.push(`thrown: ${error.stack ?? error.message}`);
        });
        page.on('request', (request) => {
          const url = new URL(request.url());
          if (/^https?:$/.test(url.protocol) && url.origin !== target.url) problems.push(`foreign request: ${url}`);
        });
        if (signedIn) {
          const { code } = await clientOf(target).createSignInCode({ body: {} });
          // As the sign-in page sends it; loading that page for each test would take a second.
          const answer = await context.request.post(`${target.url}/auth/session`, {
            data: { code },
            headers: { origin: target.url, 'sec-fetch-site': 'same-origin' },
          });
          expect(answer.status()).toBe(201);
        }
        await page.goto(`${target.url}/dashboard${path}`);
        return page;
      },
    });
  });
}

const RULES: RunOptions['runOnly'] = {
  type: 'tag',
  values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
};
const COLOUR_RULES: RunOptions['runOnly'] = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };

/**
 * Fails if axe finds violations of WCAG 2.2 AA on the page, also after the scripts that a page runs when it is idle.
 * `where` is part of the message.
 */
export async function expectAccessible(page: Page, where: object = {}, options?: { readonly isOfColours: boolean }) {
  await expect.poll(async () => ({ ...where, found: await axe(page, options) })).toEqual({ ...where, found: [] });
}

/** Returns the violations, as readable lines. */
async function axe(page: Page, { isOfColours = false } = {}): Promise<string[]> {
  // Loading axe takes longer than a check, so a page keeps it.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axeCore.source);
  const options: RunOptions = { runOnly: isOfColours ? COLOUR_RULES : RULES, resultTypes: ['violations'] };
  const violations = await page.evaluate<AxeResults['violations']>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
}

/**
 * Checks the page with axe in both themes and at two widths; for the dark theme, only the colours. `ready` waits for
 * the content.
 */
export async function checkAccess(page: Page, ready: () => Promise<unknown>): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 380]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      await ready();
      await expectAccessible(page, { colorScheme, width }, { isOfColours: colorScheme === 'dark' });
    }
  }
}
