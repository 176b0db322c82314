import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { WINGS } from '../../scripts/house.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

const PAGES = [
  'README.md',
  'AGENTS.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...globSync(['docs/**/*.md', '{*,core/*}/README.md', 'examples/**/*.md'], {
    cwd: ROOT,
    exclude: ['docs/site/node_modules/**'],
  }).sort(),
];

const TOP_FOLDERS = /^(aws|bench|bin|cli|core|docs|examples|functions|lib|llm|local|runner|scripts|sdk|stages|test)\//;

const withoutCode = (markdown: string): string => markdown.replaceAll(/^```[\s\S]*?^```/gm, '');

/** Returns the anchors that GitHub makes from a page's headings. */
function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of withoutCode(markdown).matchAll(/^#+ +(.+?) *$/gm)) {
    const slug = heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    let anchor = slug;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Returns why `target`, a path from the root with an optional anchor, is broken, or `undefined` if it is valid. */
function problemOf(target: string): string | undefined {
  const [path = '', anchor] = target.split('#');
  if (!existsSync(join(ROOT, path))) return `${path} does not exist`;
  if (anchor === undefined || anchorsOf(read(path)).has(anchor)) return undefined;
  return `${path} has no heading #${anchor}`;
}

test('the tables of the README list every page of docs', () => {
  const listed = [...read('README.md').matchAll(/^\|.*\]\((docs\/[^)#]+)\)/gm)].map(([, page]) => page);
  const pages = globSync(['docs/**/*.md', 'docs/openapi.json'], { cwd: ROOT, exclude: ['docs/site/**'] });
  expect(listed.sort()).toEqual(
    pages.filter((page) => !/^docs\/(README\.md|decisions\/|errors\/(?!README))/.test(page)).sort(),
  );
});

test('the table of decisions lists every one of them', () => {
  const listed = [...read('docs/decisions/README.md').matchAll(/^\|.*\]\((\d{4}-[^)]+)\)/gm)].map(([, page]) => page);
  const records = globSync('docs/decisions/[0-9]*.md', { cwd: ROOT }).map((path) => basename(path));
  expect(listed).toEqual(records.sort());
});

test.each(PAGES)('every relative link of %s resolves', (page) => {
  const links = [...withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!);
  const problems = links
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => problemOf(link.startsWith('#') ? `${page}${link}` : normalize(join(dirname(page), link))))
    .filter((problem) => problem !== undefined);
  expect(problems).toEqual([]);
});

test('every page of docs that another file names exists, with its heading', () => {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' });
  const sources = listed
    .split('\n')
    .filter((file) => /\.(ts|js|py|pl|yml|json)$/.test(file) && existsSync(join(ROOT, file)));
  const named = sources.flatMap((file) =>
    [...read(file).matchAll(/\bdocs\/[\w./-]*\w\.md(?:#[\w-]+)?/g)].map(([target]) => ({ file, target })),
  );
  expect(named.length).toBeGreaterThan(10);
  const problems = named.flatMap(({ file, target }) => problemOf(target)?.replace(/^/, `${file}: `) ?? []);
  expect(problems).toEqual([]);
  // These documents are outside the repository, so no reader could open them.
  const elsewhere = sources.filter((file) => /\b(?:spec|contract|design)\.md\b/.test(read(file)));
  expect(elsewhere.filter((file) => file !== 'test/docs/readme.test.ts')).toEqual([]);
});

const lengthOf = (page: string): number => read(page).trimEnd().split('\n').length;

test.each(PAGES.filter((page) => page.startsWith('docs/interface/')))('%s has fewer than 150 lines', (page) => {
  expect(lengthOf(page)).toBeLessThan(150);
});

test.each(WINGS)('core/%s has a README of at most 15 lines', (wing) => {
  expect(lengthOf(`core/${wing}/README.md`)).toBeLessThanOrEqual(15);
});

/** Files named in code spans of developer pages: paths from the root or, in a wing's README, from the wing. */
test.each(PAGES.filter((page) => /^(core|docs)\//.test(page)))('every file of ours that %s names exists', (page) => {
  const spans = [...withoutCode(read(page)).matchAll(/`([\w-]+(?:\/[\w.-]+)*\.(?:ts|md|py|js))`/g)].map(
    ([, path]) => path!,
  );
  const problems = spans.filter((path) => {
    const base = TOP_FOLDERS.test(path) ? '' : page.startsWith('core/') ? dirname(page) : undefined;
    return base !== undefined && !existsSync(join(ROOT, base, path));
  });
  expect(problems).toEqual([]);
});
