import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { clientOf, type Target } from '../../test/helpers/platform.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Path of a Chromium on this machine; `undefined` without one. */
export function findChromium(): string | undefined {
  const { CHROME_PATH, PATH = '' } = process.env;
  if (CHROME_PATH) return CHROME_PATH;
  const paths = NAMES.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name)));
  return paths.find((path) => existsSync(path));
}

export type { Page };

/** Starts the Chromium of this machine. Throws without one. */
export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error('There is no Chromium: install it, or set CHROME_PATH.');
  return chromium.launch({ executablePath, args: [...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), ...more] });
}

/** A page, of a browser of its own if `browser` is none, signed in by a one-time link of the owner. */
export async function signedInPage(
  browser: Pick<Browser, 'newPage'>,
  target: Pick<Target, 'url' | 'key'>,
  options?: BrowserContextOptions,
): Promise<Page> {
  const { code } = await clientOf(target).createSignInCode({ body: {} });
  const page = await browser.newPage(options);
  await page.goto(`${target.url}/dashboard/login#code=${code}`);
  await page.waitForURL((url) => !url.pathname.endsWith('/login'));
  return page;
}
