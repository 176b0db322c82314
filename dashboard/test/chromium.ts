import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { clientOf, type Target } from '../../test/helpers/platform.ts';

const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Returns the path of an installed Chromium; `undefined` if there is none. */
export function findChromium(): string | undefined {
  const { CHROME_PATH, PATH = '' } = process.env;
  if (CHROME_PATH) return CHROME_PATH;
  const paths = NAMES.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name)));
  return paths.find((path) => existsSync(path));
}

export type { Page };

/** Starts the installed Chromium. Throws if there is none. */
export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error('There is no Chromium: install it, or set CHROME_PATH.');
  return chromium.launch({ executablePath, args: [...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), ...more] });
}

/** Opens a page signed in as the owner by a one-time link, in `browser` or a new one. */
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
