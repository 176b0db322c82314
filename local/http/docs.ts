import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { docsLinksAt } from '#core/http/docs-links.ts';
import type { HttpRequest, HttpResponse } from '#core/http/message.ts';
import { DOCS_HEADERS } from '#core/http/page-headers.ts';
import { DocsTexts } from '../docs/texts.ts';
import { decoded, FRESH, filesIn, notYet, page, plain, StaticFiles, typeOf } from './static-files.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Output folder of `npm run docs:site`, and of the builds of the package and the image. */
export const DOCS_SITE = join(ROOT, 'dist/docs-site');
const SOURCES = join(ROOT, 'docs');
/** First segment of all pages. No workspace has this slug. */
const SEGMENT = '/docs';
/** Texts for programs that are expected at the root of an origin. A slug has no dot. */
const TEXTS = ['/llms.txt', '/llms-full.txt'];

export interface DocsOptions {
  /** Public address without a trailing slash; a proxy may serve it under another path. */
  readonly url: string;
  /** The built site. @default dist/docs-site */
  readonly folder?: string;
  /** The sources, for Markdown where no site is built. @default docs */
  readonly sources?: string;
}

/** Serves the documentation below `/docs/`, `/llms.txt` and `/llms-full.txt`. Without a built site, only their Markdown. */
export class Docs {
  readonly #basePath: string;
  readonly #folder: string;
  readonly #sources: string;
  #files: StaticFiles | undefined;

  constructor({ url, folder = DOCS_SITE, sources = SOURCES }: DocsOptions) {
    this.#basePath = new URL(`${url}${SEGMENT}/`).pathname;
    this.#folder = folder;
    this.#sources = sources;
  }

  takes({ url }: Pick<HttpRequest, 'url'>): boolean {
    const end = url.indexOf('?');
    const path = end < 0 ? url : url.slice(0, end);
    return path === SEGMENT || path.startsWith(`${SEGMENT}/`) || TEXTS.includes(path);
  }

  async answer({ method, url, headers }: Pick<HttpRequest, 'method' | 'url' | 'headers'>): Promise<HttpResponse> {
    if (method !== 'GET' && method !== 'HEAD') return plain(405, 'Only GET and HEAD.\n', { allow: 'GET, HEAD' });
    const [path = ''] = url.split('?');
    if (path === SEGMENT) return moved(this.#basePath);
    const name = TEXTS.includes(path) ? path.slice(1) : decoded(path.slice(SEGMENT.length + 1));
    const response = await this.#find(name ?? '\0', headers);
    return method === 'HEAD' ? { ...response, body: null } : response;
  }

  async #find(name: string, headers: HttpRequest['headers']): Promise<HttpResponse> {
    if (this.#files === undefined) {
      const found = new StaticFiles(await filesIn(this.#folder), '_astro/', DOCS_HEADERS);
      if (!found.has('index.html')) return this.#unbuilt(name, headers);
      this.#files = found;
    }
    const files = this.#files;
    const accepted = headers.get('accept-encoding') ?? '';
    const known = headers.get('if-none-match') ?? '';
    const slug = name.endsWith('/') ? name.slice(0, -1) : name;
    const pageName = slug === '' ? 'index' : slug;
    if (files.has(`${pageName}.html`)) {
      if (slug !== name) return moved(`${this.#basePath}${slug}`);
      const isMarkdown = wantsMarkdown(headers) && files.has(`${pageName}.md`);
      const response = isMarkdown
        ? await files.send(`${pageName}.md`, accepted, { known })
        : await this.#html(files, `${pageName}.html`, { accepted, known });
      return { ...response, headers: { ...response.headers, vary: 'accept, accept-encoding' } };
    }
    if (files.has(name)) return files.send(name, accepted, { known });
    return { ...(await this.#html(files, '404.html', { accepted, known: '' })), status: 404 };
  }

  /** The links of a page begin with `/docs/`: behind a proxy with a path they are rewritten. */
  async #html(files: StaticFiles, name: string, { accepted, known }: { accepted: string; known: string }) {
    if (this.#basePath === `${SEGMENT}/`) return files.send(name, accepted, { known });
    const html = await readFile(files.fileOf(name), 'utf8');
    return {
      status: 200,
      headers: { ...DOCS_HEADERS, ...FRESH, 'content-type': typeOf('.html') },
      body: docsLinksAt(html, this.#basePath.slice(0, -'docs/'.length)),
    };
  }

  /** Answers in a clone whose site has not been built. */
  #unbuilt(name: string, headers: HttpRequest['headers']): HttpResponse {
    const texts = existsSync(this.#sources) ? new DocsTexts(this.#sources, this.#basePath) : undefined;
    const slug = name.replace(/\/$/, '');
    const asked = name.endsWith('.md') ? name.slice(0, -'.md'.length) : wantsMarkdown(headers) ? slug : undefined;
    const text =
      name === 'llms.txt'
        ? texts?.list()
        : name === 'llms-full.txt'
          ? texts?.full()
          : asked === undefined
            ? undefined
            : texts?.markdownOf(asked);
    if (text !== undefined) {
      const type = typeOf(name.endsWith('.txt') ? '.txt' : '.md');
      return {
        status: 200,
        headers: { ...DOCS_HEADERS, 'cache-control': 'no-cache', 'content-type': type },
        body: text,
      };
    }
    if (name.endsWith('.md')) return plain(404, 'There is no such page; see /llms.txt.\n');
    const link = texts?.markdownOf(slug) === undefined ? 'llms.txt' : `${slug === '' ? 'index' : slug}.md`;
    const end = `<p><a href="${this.#basePath}${link}">Read it as Markdown</a></p>`;
    return notYet(404, page('The documentation has not been built', 'Build it: npm run docs:site', { end }));
  }
}

const moved = (location: string): HttpResponse => ({ status: 308, headers: { location }, body: null });

const wantsMarkdown = (headers: HttpRequest['headers']): boolean =>
  /(^|,)\s*text\/markdown\b/i.test(headers.get('accept') ?? '');
