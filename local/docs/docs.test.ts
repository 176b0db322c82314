import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ERROR_CODES } from '#core/base/errors.ts';
import { addressOf, partsOf, withLinks, withTabs } from './markdown.ts';
import { pagesIn, summaryOf, titled } from './pages.ts';
import { DocsTexts } from './texts.ts';

const DOCS = join(import.meta.dirname, '../../docs');
const pages = pagesIn(DOCS);

describe('the list of pages', () => {
  test('has each page of the README’s tables, and no page twice', () => {
    const readme = readFileSync(join(DOCS, '../README.md'), 'utf8');
    const linked = [...readme.matchAll(/\]\(docs\/([\w/-]+\.md)/g)].map(([, file]) => file!);
    const listed = pages.map(({ file }) => file);
    expect(linked.length).toBeGreaterThan(60);
    expect(linked.filter((file) => !listed.includes(file))).toEqual([]);
    expect(listed.length).toBe(new Set(listed).size);
    const tables = listed.filter((file) => !/^(errors|tutorials|migrate|decisions)\/|^compare/.test(file));
    expect(tables.filter((file) => !linked.includes(file))).toEqual([]);
  });

  test('every page has a title', () => {
    for (const { file } of pages) {
      expect(titled(readFileSync(join(DOCS, file), 'utf8'), file).title, file).toMatch(/\w/);
    }
    expect(() => titled('No heading', 'x.md')).toThrow('must begin with a heading');
  });

  test('each error code has a page, and no other has', () => {
    const codes = pages
      .filter(({ file }) => /^errors\/(?!README)/.test(file))
      .map(({ slug }) => slug.slice('errors/'.length));
    expect(codes.sort()).toEqual([...ERROR_CODES].sort());
  });
});

describe('links', () => {
  const isPage = (file: string) => ['calls.md', 'interface/errors.md', 'errors/README.md'].includes(file);
  const rules = { file: 'interface/errors.md', isPage, base: '/docs/', extension: '' } as const;

  test.each([
    ['../calls.md', '/docs/calls'],
    ['../calls.md#files', '/docs/calls#files'],
    ['errors.md', '/docs/interface/errors'],
    ['../errors/', '/docs/errors'],
    ['../images/a.webp', '/docs/images/a.webp'],
    ['../openapi.json', '/docs/openapi.json'],
    ['../../README.md#x', '/docs/#x'],
    ['#codes', '#codes'],
    ['https://example.org/a.md', 'https://example.org/a.md'],
    ['/openapi.json', '/openapi.json'],
  ])('%s becomes %s', (target, address) => {
    expect(addressOf(target, rules)).toBe(address);
  });

  test.each([
    ['the [codes](../../core/base/errors.ts#L1) of', 'the codes (`core/base/errors.ts`) of'],
    ['[`core/base`](../../core/base/README.md),', '`core/base`,'],
    ['[`a[0]`](../site/README.md)', '`a[0]` (`docs/site/README.md`)'],
  ])('a file that is not on the site is named: %s', (text, written) => {
    expect(withLinks(text, rules)).toBe(written);
  });

  test('images and links around them lead to the site', () => {
    const image = '![A [page]](../images/a.webp)';
    expect(withLinks(`[${image}](../calls.md)`, rules)).toBe('[![A [page]](/docs/images/a.webp)](/docs/calls)');
    expect(withLinks('<img src="../images/a.webp">\n\n[x]: ../calls.md', rules)).toBe(
      '<img src="/docs/images/a.webp">\n\n[x]: /docs/calls',
    );
  });

  test('those of Markdown lead to Markdown', () => {
    expect(withLinks('[a](../calls.md#files)', { ...rules, extension: '.md' })).toBe('[a](/docs/calls.md#files)');
  });

  test('code is left as it is', () => {
    const code = '```sh\ncat [x](../calls.md)\n```\n`[x](../calls.md)` ';
    expect(withLinks(`${code}[y](../calls.md)`, rules)).toBe(`${code}[y](/docs/calls)`);
  });

  test('no relative link of any page leads to a file that does not exist', () => {
    const texts = new DocsTexts(DOCS, '/docs/');
    const broken = texts.pages.flatMap(({ slug }) => {
      const targets = [...texts.markdownOf(slug)!.matchAll(/\]\(\/docs\/([^)#\s]+)/g)].map(([, target]) => target!);
      return targets.filter(
        (target) => !existsSync(join(DOCS, target)) && texts.markdownOf(target.replace(/\.md$/, '')) === undefined,
      );
    });
    expect(broken).toEqual([]);
    const relative = texts.pages.flatMap(({ slug }) =>
      partsOf(texts.markdownOf(slug)!)
        .filter(({ isCode }) => !isCode)
        .flatMap(({ text }) => [...text.replaceAll(/`[^`]*`/g, '').matchAll(/\]\((?![a-z]+:|\/|#)[^)]*\)/g)])
        .map(([link]) => `${slug}: ${link}`),
    );
    expect(relative).toEqual([]);
  });
});

describe('tabs', () => {
  const block = (info: string, text: string) => `\`\`\`${info}\n${text}\n\`\`\``;

  test('consecutive blocks with names become tabs', () => {
    const text = `Before\n\n${block('sh tab="curl"', 'curl x')}\n\n${block('js tab="JavaScript"', 'x()')}\n\nAfter`;
    const html = withTabs(text);
    expect(html).toContain('<code-tabs>\n<section data-tab="curl">\n\n```sh\ncurl x\n```\n\n</section>');
    expect(html).toContain('<section data-tab="JavaScript">\n\n```js\nx()\n```');
    expect(html.match(/<\/code-tabs>/g)).toHaveLength(1);
    expect(html.startsWith('Before')).toBe(true);
    expect(html.endsWith('After')).toBe(true);
  });

  test('text between blocks ends the tabs; one alone is a block', () => {
    const text = `${block('sh tab="curl"', 'a')}\n\ntext\n\n${block('sh tab="CLI"', 'b')}\n${block('sh', 'c')}`;
    expect(withTabs(text)).toBe(text.replaceAll(/ tab="\w+"/g, ''));
  });

  test('names cannot leave their attribute', () => {
    const html = withTabs(`${block('sh tab="<b>&"', 'a')}\n${block('sh tab="CLI"', 'b')}`);
    expect(html).toContain('data-tab="&lt;b>&amp;"');
  });

  test('a block that is never closed runs to the end', () => {
    expect(partsOf('a\n````sh\n```\nb')).toEqual([
      { isCode: false, text: 'a' },
      { isCode: true, text: '````sh\n```\nb', info: 'sh' },
    ]);
  });
});

describe('texts for programs', () => {
  const texts = new DocsTexts(DOCS, '/docs/');

  test('llms.txt lists each page once, with its title', () => {
    const links = [...texts.list().matchAll(/^- \[[^\]]+\]\(\/docs\/([^)]+)\.md\)/gm)].map(([, slug]) => slug);
    expect(links).toEqual(texts.pages.slice(1).map(({ slug }) => slug));
    expect(texts.list()).toMatch(/^# \w.*\n\n> \w/);
  });

  test('llms-full.txt has all pages', () => {
    const full = texts.full();
    for (const { slug } of texts.pages) expect(full).toContain(texts.markdownOf(slug)!.trim().slice(0, 200));
    expect(texts.markdownOf('../SECURITY')).toBeUndefined();
  });

  test('a summary is one sentence without marks', () => {
    expect(summaryOf('```sh\nx\n```\n\nA *run* of [an agent](a.md) in `x` ends. More.')).toBe(
      'A run of an agent in x ends.',
    );
    expect(summaryOf('')).toBeUndefined();
  });
});
