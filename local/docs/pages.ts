import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A group of pages in the navigation of the documentation site and in `llms.txt`. */
export interface PageGroup {
  readonly label: string;
  /** Files in `docs/` without `.md`, or folders with a trailing slash, which stand for all of their pages. */
  readonly pages: readonly string[];
}

/** The pages of the documentation in their order. A test compares the list with the tables of the README. */
export const PAGE_GROUPS: readonly PageGroup[] = [
  { label: 'Start', pages: ['tutorials/', 'cli', 'dashboard', 'compare', 'migrate/'] },
  {
    label: 'Build',
    pages: [
      ...[
        'agents',
        'dependencies',
        'develop',
        'testing',
        'evals',
        'manifest',
        'prompts',
        'models',
        'loops',
        'durable',
        'skills',
      ],
      ...['orchestration', 'sdk', 'clients', 'storage', 'memory', 'channels'],
    ],
  },
  {
    label: 'Run',
    pages: [
      ...[
        'calls',
        'openai',
        'runs',
        'scores',
        'retries',
        'queues',
        'warm',
        'sessions',
        'approvals',
        'chat',
        'ag-ui',
        'a2a',
        'mcp',
        'schedules',
        'webhooks',
        'services',
        'egress',
        'alerts',
        'destinations',
        'telemetry',
        'tasks',
      ],
      ...['messages', 'usage', 'budgets'],
    ],
  },
  {
    label: 'Share and pay',
    pages: ['workspaces', 'keys', 'ci', 'grants', 'connections', 'sign-in', 'client-sign-in', 'limits', 'billing'],
  },
  {
    label: 'Operate',
    pages: [
      ...[
        'self-host',
        'sandbox',
        'settings',
        'operate',
        'aws',
        'deploy',
        'first-account',
        'cdk',
        'multi-region',
        'cells',
      ],
      ...['secrets-on-aws', 'microvms', 'costs', 'scale'],
    ],
  },
  { label: 'Reference', pages: ['interface/', 'errors/'] },
  { label: 'Contribute', pages: ['architecture', 'release', 'decisions/'] },
];

/** A page of the documentation. */
export interface DocsPage {
  /** Its path below `/docs/`, without an extension; empty for the home page. */
  readonly slug: string;
  /** Its file in `docs/`. */
  readonly file: string;
  readonly group: string;
}

/** The page that `/docs/` shows is the list of questions of the README. */
const HOME = 'README.md';

/** Returns all pages that exist, in the order of the groups. Pages of a folder are in alphabetical order, its README first. */
export function pagesIn(docs: string): readonly DocsPage[] {
  return PAGE_GROUPS.flatMap(({ label, pages }) =>
    pages.flatMap((name) => {
      const files = name.endsWith('/') ? filesOf(docs, name) : [`${name}.md`];
      return files
        .filter((file) => existsSync(join(docs, file)))
        .map((file) => ({ slug: slugOf(file), file, group: label }));
    }),
  );
}

const filesOf = (docs: string, folder: string): string[] =>
  globSync(`${folder}*.md`, { cwd: docs })
    .map((file) => file.replaceAll('\\', '/'))
    .sort((a, b) => Number(isIndex(b)) - Number(isIndex(a)) || (a < b ? -1 : 1));

const isIndex = (file: string): boolean => /(^|\/)README\.md$/.test(file);

/** Returns the path below `/docs/` of a file: a folder's README is the page of the folder. */
export const slugOf = (file: string): string => file.replace(/(^|\/)README\.md$/, '').replace(/\.md$/, '');

/** Splits a page into its title, the first heading, and the text below it. Throws if there is no heading. */
export function titled(markdown: string, file: string): { readonly title: string; readonly body: string } {
  const found = /^(?:<!--[\s\S]*?-->\s*)?# (.+)\n/.exec(markdown);
  if (found === null) throw new Error(`docs/${file} must begin with a heading of level 1`);
  return { title: found[1]!.replaceAll('`', '').trim(), body: markdown.slice(found[0].length).trimStart() };
}

/** Returns the first sentence of a page as plain text: what `llms.txt` and search engines show. */
export function summaryOf(body: string): string | undefined {
  const paragraph = body.split(/\n\s*\n/).find((block) => /^(?!```)[A-Za-z`*["]/.test(block));
  const text = paragraph
    ?.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*]/g, '')
    .replace(/\s+/g, ' ')
    .trim();
  return text && (/^.{20,200}?[.:](?= |$)/.exec(text)?.[0].replace(/:$/, '.') ?? text.slice(0, 200));
}

/** Returns the text of the home page: the list of questions of the README, as links from `docs/`. */
export function homePage(readme: string): string {
  const start = readme.indexOf('## Documentation\n');
  const end = readme.lastIndexOf('\nApache-2.0');
  if (start < 0 || end < start)
    throw new Error('README.md must have a section "Documentation" and end with its license');
  const intro = readme.slice(readme.indexOf('\n', 2), readme.indexOf('**See it work.**')).trim();
  const list = readme.slice(start + '## Documentation\n'.length, end);
  return `# Agent Hosting Platform\n\n${`${intro}\n\n${list.trim()}`.replaceAll(/\]\(docs\//g, '](')}\n`;
}

/** Returns the Markdown of a page as it is in the repository; for the home page see {@link homePage}. */
export const sourceOf = (docs: string, file: string): string =>
  file === HOME ? homePage(readFileSync(join(docs, '../README.md'), 'utf8')) : readFileSync(join(docs, file), 'utf8');

export const HOME_PAGE: DocsPage = { slug: '', file: HOME, group: 'Start' };
