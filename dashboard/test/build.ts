import { Dashboard } from '../../local/http/dashboard.ts';
import { buildDocsSite } from '../../scripts/build-docs-site.ts';
import { findChromium } from './chromium.ts';
import { installLighthouse } from './lighthouse/audit.ts';

/**
 * Builds the dashboard and the documentation once before all browser tests, as `npm start` does, installs Lighthouse,
 * and reports a missing browser.
 */
export async function setup(): Promise<void> {
  if (findChromium() === undefined) {
    const text =
      'The browser tests need Chromium: install it (Debian: apt-get install chromium-headless-shell), or set CHROME_PATH.';
    if (process.env.CI) throw new Error(text);
    console.warn(`Skipped. ${text}`);
    return;
  }
  let problem: string | undefined;
  const log = {
    info: () => {},
    error: (_: string, details?: Readonly<Record<string, unknown>>) => {
      problem = String(details?.error);
    },
  };
  await new Dashboard({ log, url: 'http://127.0.0.1/dashboard' }).prepare();
  if (problem !== undefined) throw new Error(problem);
  await buildDocsSite();
  installLighthouse();
}
