import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import type { Client } from '../../core/api/client.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../../test/helpers/platform.ts';
import { findChromium, launchChromium } from './chromium.ts';

/** A platform and a browser, both real. */
export interface Site {
  readonly target: LocalTarget;
  /** Of the owner of the workspace `acme`, which browsers of {@link Site.open} are signed in as. */
  readonly client: Client;
  /** Address of a page: `at('/acme/agents')`. */
  at(path: string): string;
  /**
   * A page of a browser of its own, signed in by a one-time link unless `signedIn` is false, at `path`. What it must not do fails the
   * test: see {@link describeSite}.
   */
  open(
    path: string,
    options?: BrowserContextOptions & {
      readonly signedIn?: boolean;
      /** Errors in the console that the test is about. */
      readonly expectedErrors?: RegExp;
    },
  ): Promise<Page>;
}

/** Chrome writes one for each answer that is an error; pages show those. */
const ANSWERED = /^Failed to load resource: the server responded with a status of/;

/**
 * Tests in a real Chromium against a real platform with the scripted model; skipped where there is no Chromium. Each fails if a page
 * breaks its policy, writes an error into the console, throws, or asks another origin for anything.
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
          // From the sign-in page: only requests of the platform's own pages get a cookie.
          await page.goto(`${target.url}/dashboard/login`);
          const body = JSON.stringify(JSON.stringify({ code }));
          const status = await page.evaluate(
            `fetch('/auth/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body: ${body} }).then(({ status }) => status)`,
          );
          expect(status).toBe(201);
        }
        await page.goto(`${target.url}/dashboard${path}`);
        return page;
      },
    });
  });
}

/** What axe finds against WCAG 2.2 AA on the page as it is, as readable lines. */
export async function axe(page: Page, { isOfColours = false } = {}): Promise<string[]> {
  // The other mode is for frames of other origins: it opens a page for each analysis.
  const builder = new AxeBuilder({ page }).setLegacyMode();
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const rules = isOfColours ? builder.withRules(['color-contrast', 'link-in-text-block']) : builder.withTags(tags);
  const { violations } = await rules.analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
}

/**
 * Checks the page with axe in both themes and at two widths: the dark theme has other colours, and nothing else. `ready` waits for the
 * content that is checked.
 */
export async function checkAccess(page: Page, ready: () => Promise<unknown>): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 380]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      await ready();
      expect({ colorScheme, width, found: await axe(page, { isOfColours: colorScheme === 'dark' }) }).toEqual({
        colorScheme,
        width,
        found: [],
      });
    }
  }
}
