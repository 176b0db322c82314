import { readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { HttpResponse } from '#core/http/message.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.webp': 'image/webp',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
  '.wasm': 'application/wasm',
};
export const FRESH = { 'cache-control': 'no-store' } as const;
const IMMUTABLE = 'public, max-age=31536000, immutable';
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

type Headers = Readonly<Record<string, string>>;

export const typeOf = (name: string): string => TYPES[extname(name) || name] ?? 'application/octet-stream';

/** Built files in a folder, each maybe with compressed versions beside it (`.br`, `.gz`). */
export class StaticFiles {
  readonly #files: ReadonlyMap<string, string>;
  readonly #hashed: string;
  readonly #headers: Headers;

  /** `hashed`: prefix of the files whose names contain content hashes. `headers`: of every response. */
  constructor(files: ReadonlyMap<string, string>, hashed: string, headers: Headers) {
    this.#files = files;
    this.#hashed = hashed;
    this.#headers = headers;
  }

  /** Only names of files in the folder match, so no path can escape it. */
  has = (name: string): boolean => this.#files.has(name);

  /** Path of a file that exists. */
  fileOf = (name: string): string => this.#files.get(name)!;

  /** Returns a file that exists. `accepted`: the encodings that the client accepts. */
  async send(name: string, accepted: string, { known = '' }: { readonly known?: string } = {}): Promise<HttpResponse> {
    const found = ENCODINGS.find(([coding, end]) => accepted.includes(coding) && this.has(name + end));
    const file = this.fileOf(name) + (found?.[1] ?? '');
    const { mtimeMs, size } = await stat(file);
    const etag = `"${Math.trunc(mtimeMs).toString(36)}-${size.toString(36)}${found ? `-${found[0]}` : ''}"`;
    const headers = {
      ...this.#headers,
      'cache-control': name.startsWith(this.#hashed) ? IMMUTABLE : 'no-cache',
      vary: 'accept-encoding',
      etag,
    };
    if (known.split(',').some((tag) => tag.trim() === etag)) return { status: 304, headers, body: null };
    return {
      status: 200,
      headers: { ...headers, 'content-type': typeOf(name), ...(found && { 'content-encoding': found[0] }) },
      body: await readFile(file),
    };
  }
}

/** Maps each path below the folder (with slashes) to its file. */
export async function filesIn(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return new Map(files.map((file) => [file.slice(folder.length + 1).replaceAll('\\', '/'), file]));
}

export function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

export const plain = (status: number, body: string, headers: Headers = {}): HttpResponse => ({
  status,
  headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': 'text/plain; charset=utf-8', ...headers },
  body,
});

/** Returns a page instead of files that cannot be served now. */
export const notYet = (status: number, body: string, headers: Headers = {}): HttpResponse => ({
  status,
  headers: { ...PAGE_HEADERS, ...FRESH, 'content-type': typeOf('.html'), ...headers },
  body,
});

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** Returns a page with one text. `head` and `end` are HTML. */
export const page = (title: string, text: string, { head = '', end = '' } = {}): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}<title>${title}</title>
<style>:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif } main { max-width: 40rem; margin: 15vh auto; padding: 0 1rem } pre { white-space: pre-wrap }</style>
</head>
<body><main><h1>${title}</h1><pre>${escaped(text)}</pre>${end}</main></body>
</html>
`;
