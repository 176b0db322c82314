import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { extname, join } from 'node:path';
import type { HttpRequest, HttpResponse } from '#core/http/message.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import type { Log } from '#core/ports/deps.ts';

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

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
};
const FRESH = { 'cache-control': 'no-store' } as const;
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

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
  #files: ReadonlyMap<string, string> | undefined;
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
    this.#files ??= await filesIn(this.#folder);
    const files = this.#files;
    if (!files.has('index.html')) {
      this.#files = undefined;
      return notYet(404, page('The dashboard has not been built', 'Build it: npm run build --workspace dashboard'));
    }
    // Only names of files in the folder match, so no path can escape it.
    const name = decoded(path);
    const file = name === undefined || name === '' ? undefined : files.get(name);
    if (file !== undefined && name !== 'index.html') return this.#send(name!, file, accepted);
    if (name?.startsWith('assets/')) return plain(404, 'There is no such file.\n');
    return this.#index(files.get('index.html')!);
  }

  async #send(name: string, file: string, accepted: string): Promise<HttpResponse> {
    const found = ENCODINGS.find(([coding, end]) => accepted.includes(coding) && this.#files!.has(name + end));
    const body = await readFile(found ? file + found[1] : file);
    return {
      status: 200,
      headers: {
        ...PAGE_HEADERS,
        // Names of assets contain a content hash.
        'cache-control': name.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
        'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
        vary: 'accept-encoding',
        ...(found && { 'content-encoding': found[0] }),
      },
      body,
    };
  }

  /** Returns the single page, whose script routes by the address. */
  async #index(file: string): Promise<HttpResponse> {
    const html = await readFile(file, 'utf8');
    const body = html.replace(/<base href="[^"]*"/, `<base href="${this.#basePath}"`);
    return { status: 200, headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': TYPES['.html']! }, body };
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

/** Maps each path below the folder (with slashes) to its file. */
async function filesIn(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return new Map(files.map((file) => [file.slice(folder.length + 1).replaceAll('\\', '/'), file]));
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

const plain = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): HttpResponse => ({
  status,
  headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': 'text/plain; charset=utf-8', ...headers },
  body,
});

const notYet = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): HttpResponse => ({
  status,
  headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': TYPES['.html']!, ...headers },
  body,
});

const page = (title: string, text: string, head = ''): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}<title>${title}</title>
<style>:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif } main { max-width: 40rem; margin: 15vh auto; padding: 0 1rem } pre { white-space: pre-wrap }</style>
</head>
<body><main><h1>${title}</h1><pre>${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre></main></body>
</html>
`;
/** The refresh keeps the fragment of the address. */
const BEING_BUILT = page(
  'The dashboard is being built',
  'This takes about half a minute, only once. The page reloads by itself. The API is already available.',
  '<meta http-equiv="refresh" content="2">\n',
);
