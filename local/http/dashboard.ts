import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { dashboardPage } from '#core/http/dashboard-page.ts';
import type { HttpRequest, HttpResponse } from '#core/http/message.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import type { Log } from '#core/ports/deps.ts';
import { COMMAND } from '../command.ts';
import { decoded, FRESH, filesIn, notYet, page, plain, StaticFiles, typeOf } from './static-files.ts';

const ROOT = join(import.meta.dirname, '../..');
const SOURCES = ['dashboard/{src,public}/**/*', 'dashboard/*.{ts,html,json}', 'core/**/routes.ts'];
const VITE = join(ROOT, 'node_modules/vite/bin/vite.js');
/** Output folder of the build: `index.html`, files beside it, and `assets/`, whose names contain content hashes. */
export const DASHBOARD = join(ROOT, 'dashboard/dist');
/** Node arguments that run the build. */
export const BUILD = [VITE, 'build', '--configLoader', 'native', '--logLevel', 'warn', join(ROOT, 'dashboard')];
/** First segment of all dashboard paths. No workspace has this slug. */
const SEGMENT = '/dashboard';
/** Maximum length of the build output that is reported on failure. */
const MAX_SAID = 4_000;

export interface DashboardOptions {
  readonly log: Pick<Log, 'info' | 'error'>;
  /** Public address without a trailing slash; a proxy may serve it under another path. */
  readonly url: string;
  /** The built files. @default dashboard/dist */
  readonly folder?: string;
}

/**
 * Serves the dashboard's files below `/dashboard/`. In a repository they are built on the first request, in a separate
 * process; an installation ships them built.
 */
export class Dashboard {
  readonly #log: DashboardOptions['log'];
  readonly #basePath: string;
  readonly #folder: string;
  readonly #isOwn: boolean;
  #files: StaticFiles | undefined;
  #build: Promise<void> | undefined;
  #child: ChildProcess | undefined;
  #problem: string | undefined;

  constructor({ log, url, folder }: DashboardOptions) {
    this.#log = log;
    this.#basePath = new URL(`${url}/`).pathname;
    this.#folder = folder ?? DASHBOARD;
    this.#isOwn = folder === undefined;
  }

  takes({ url }: Pick<HttpRequest, 'url'>): boolean {
    return url.startsWith(SEGMENT) && /^[/?]?$/.test(url.charAt(SEGMENT.length));
  }

  /** Builds the files unless they are newer than their sources. Resolves when the build has succeeded or failed. */
  prepare(): Promise<void> {
    this.#build ??= this.#isOwn && isStale(this.#folder) ? this.#buildNow() : Promise.resolve();
    return this.#build;
  }

  async answer({ method, url }: Pick<HttpRequest, 'method' | 'url'>, accepted: string): Promise<HttpResponse> {
    if (method !== 'GET' && method !== 'HEAD') return plain(405, 'Only GET and HEAD.\n', { allow: 'GET, HEAD' });
    const [path = ''] = url.split('?');
    if (path === SEGMENT) return { status: 308, headers: { location: this.#basePath }, body: null };
    const response = await this.#find(path.slice(SEGMENT.length + 1), accepted);
    return method === 'HEAD' ? { ...response, body: null } : response;
  }

  async #find(path: string, accepted: string): Promise<HttpResponse> {
    void this.prepare();
    if (this.#child !== undefined) return notYet(503, BEING_BUILT, { 'retry-after': '2' });
    if (this.#problem !== undefined) return notYet(503, page('The dashboard could not be built', this.#problem));
    this.#files ??= new StaticFiles(await filesIn(this.#folder), 'assets/', PAGE_HEADERS);
    const files = this.#files;
    if (!files.has('index.html')) {
      this.#files = undefined;
      return notYet(404, page('The dashboard has not been built', 'Build it: npm run build --workspace dashboard'));
    }
    const name = decoded(path) ?? '';
    if (files.has(name) && name !== 'index.html') return files.send(name, accepted);
    if (name.startsWith('assets/')) return plain(404, 'There is no such file.\n');
    return this.#index(files.fileOf('index.html'));
  }

  /** Returns the single page, whose script routes by the address. */
  async #index(file: string): Promise<HttpResponse> {
    const html = await readFile(file, 'utf8');
    const body = dashboardPage(html, { basePath: this.#basePath, command: COMMAND });
    return { status: 200, headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': typeOf('.html') }, body };
  }

  async #buildNow(): Promise<void> {
    const child = spawn(process.execPath, BUILD, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    let said = '';
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (text) => {
        said = `${said}${text}`.slice(-MAX_SAID);
      });
    }
    try {
      // Calls take priority over the build.
      if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
      const [status] = await once(child, 'exit');
      if (status !== 0) this.#problem = said.trim() || `Its build ended with ${status}.`;
    } catch (error) {
      this.#problem = String(error);
    } finally {
      this.#child = undefined;
    }
    if (this.#problem === undefined) this.#log.info('the dashboard is built');
    else this.#log.error('the dashboard was not built', { error: this.#problem });
  }

  /** Ends a build in progress. */
  close(): void {
    this.#child?.kill();
  }
}

/** Returns whether sources are newer than the build. False if the build tools are missing. */
export function isStale(folder: string): boolean {
  if (!existsSync(VITE) || !existsSync(join(ROOT, 'dashboard/src'))) return false;
  const index = join(folder, 'index.html');
  if (!existsSync(index)) return true;
  const builtAt = statSync(index).mtimeMs;
  return globSync(SOURCES, { cwd: ROOT }).some((file) => statSync(join(ROOT, file)).mtimeMs > builtAt);
}

/** The refresh keeps the fragment of the address. */
const BEING_BUILT = page(
  'The dashboard is being built',
  'This takes about half a minute, only once. The page reloads by itself. The API is already available.',
  { head: '<meta http-equiv="refresh" content="2">\n' },
);
