import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { installPackages } from '../../../scripts/install-packages.ts';
import { findChromium } from '../chromium.ts';
import { freePort } from '../free-port.ts';

/** What the audits set of Lighthouse's flags. */
export interface Flags {
  /** Milliseconds. */
  readonly maxWaitForLoad?: number;
  readonly throttlingMethod?: 'provided';
}

/** What the audits read of Lighthouse's result. Scores go from 0 to 1. */
export interface Result {
  readonly finalDisplayedUrl: string;
  readonly categories: Readonly<
    Record<string, { readonly score: number | null; readonly auditRefs: readonly { readonly id: string }[] }>
  >;
  readonly audits: Readonly<Record<string, Audit>>;
}

interface Audit {
  readonly id: string;
  readonly title: string;
  readonly score: number | null;
  readonly displayValue?: string;
  readonly numericValue?: number;
}

/** Typed here, so that the types can be checked without its packages. */
interface Lighthouse {
  default(url: string, flags: object, config: object): Promise<{ readonly lhr: Result } | undefined>;
  readonly desktopConfig: object;
}

/** Installs Lighthouse, which `npm ci` of the repository leaves out, if it is not current. Throws if npm fails. */
export const installLighthouse = (): void => installPackages(import.meta.dirname);

/** A Chromium for Lighthouse, which must record each navigation from its start. */
export interface AuditBrowser {
  /** Audits a page with the desktop preset of Lighthouse. `cookie`: a session, as `name=value`. */
  audit(url: string, categories: readonly string[], flags?: Flags & { readonly cookie?: string }): Promise<Result>;
  close(): Promise<void>;
}

/** Starts the installed Chromium with a profile of its own. Throws if there is none, or if Lighthouse cannot be installed. */
export async function startAuditBrowser(): Promise<AuditBrowser> {
  installLighthouse();
  const name = 'lighthouse';
  const { default: lighthouse, desktopConfig }: Lighthouse = await import(name);
  const port = await freePort();
  const profile = mkdtempSync(join(tmpdir(), 'lighthouse-'));
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const flags = ['--headless=new', `--remote-debugging-port=${port}`, `--user-data-dir=${profile}`, ...asRoot];
  // Debian's command is a script that waits for the browser, so both are ended as a group.
  const browser = spawn(findChromium()!, flags, { stdio: 'ignore', detached: true });
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/json/version`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isUp())) await wait(100);
  return {
    async audit(url, categories, { cookie, ...more } = {}) {
      const onlyCategories = [...categories];
      const extraHeaders: Record<string, string> = cookie === undefined ? {} : { cookie };
      const fixed = { port, onlyCategories, extraHeaders, disableStorageReset: true, logLevel: 'silent' } as const;
      return (await lighthouse(url, { ...fixed, disableFullPageScreenshot: true, ...more }, desktopConfig))!.lhr;
    },
    async close() {
      process.kill(-browser.pid!);
      await once(browser, 'exit');
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Signs in with a one-time code, and returns the cookie of the session as `name=value`. */
export async function signInCookie(url: string, createCode: () => Promise<{ readonly code: string }>): Promise<string> {
  const { code } = await createCode();
  const signIn = await fetch(`${url}/auth/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify({ code }),
  });
  const cookie = signIn.headers.get('set-cookie')?.split(';')[0];
  if (!cookie?.includes('=')) throw new Error(`signing in was answered with ${signIn.status}`);
  return cookie;
}

/** Returns the scores of an audit out of 100, by category. */
export const scoresOf = ({ categories }: Result): Record<string, number> =>
  Object.fromEntries(Object.entries(categories).map(([id, { score }]) => [id, Math.round(100 * (score ?? 0))]));
