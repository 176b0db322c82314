import { createHash } from 'node:crypto';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { AstroIntegration } from 'astro';
import { DocsTexts } from '../../../local/docs/texts.ts';
import { BASE, DOCS } from './docs-folder.ts';

const SCRIPT = /<script(?<attributes>[^>]*)>(?<code>[\s\S]*?)<\/script>/g;
const COMPRESSED = /\.(html|js|css|svg|json|md|txt)$/;

/** What axe finds in the markup of Starlight and its plugin, and images that need not delay a page. */
const corrected = (html: string): string =>
  html
    // The name of the button would have to contain the keys, which differ between systems.
    .replace(/<kbd class="sl-hidden[^>]*>\s*(?:<kbd[^>]*>[^<]*<\/kbd>\s*)*<\/kbd>/g, '')
    .replace(/<h5( class="sl-openapi-examples-heading[^>]*>[\s\S]*?)<\/h5>/g, '<p$1</p>')
    .replaceAll('<img src="/docs/images/', '<img loading="lazy" decoding="async" src="/docs/images/');

/** Code that scrolls is focusable, but it is no landmark of the page. */
const withoutLandmarks = (code: string): string => code.replace('"role","region"', '"role","group"');

/**
 * Completes the build: moves inline scripts to files, because the policy of the platform allows no others; adds the
 * Markdown of each page, the texts for programs, and what the pages link to; and compresses everything.
 */
export const finish = (): AstroIntegration => ({
  name: 'finish',
  hooks: {
    'astro:build:done': ({ dir }) => {
      const out = fileURLToPath(dir);
      const write = (name: string, content: string): void => {
        const file = join(out, name);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, content);
      };
      for (const name of globSync('**/*.html', { cwd: out })) {
        const html = readFileSync(join(out, name), 'utf8');
        const external = corrected(html).replace(SCRIPT, (whole, attributes: string, code: string) => {
          if (/\bsrc=/.test(attributes) || /type="application\//.test(attributes) || code.trim() === '') return whole;
          const file = `_astro/inline.${createHash('sha256').update(code).digest('hex').slice(0, 16)}.js`;
          if (!existsSync(join(out, file))) write(file, code);
          return `<script${attributes} src="${BASE}${file}"></script>`;
        });
        if (external !== html) writeFileSync(join(out, name), external);
      }
      for (const name of globSync('_astro/ec.*.js', { cwd: out })) {
        write(name, withoutLandmarks(readFileSync(join(out, name), 'utf8')));
      }
      const texts = new DocsTexts(DOCS, BASE);
      for (const { slug } of texts.pages) write(`${slug === '' ? 'index' : slug}.md`, texts.markdownOf(slug)!);
      write('llms.txt', texts.list());
      write('llms-full.txt', texts.full());
      cpSync(join(DOCS, 'images'), join(out, 'images'), { recursive: true });
      cpSync(join(DOCS, 'openapi.json'), join(out, 'openapi.json'));
      for (const name of globSync('**/*', { cwd: out })) {
        if (!COMPRESSED.test(name)) continue;
        const file = join(out, name);
        const content = readFileSync(file);
        const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
        writeFileSync(`${file}.br`, brotliCompressSync(content, { params }));
        writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
      }
    },
  },
});
