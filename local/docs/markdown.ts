import { posix } from 'node:path';
import { slugOf } from './pages.ts';

const FENCE = /^( {0,3})(`{3,}|~{3,})(.*)$/;

/** Splits Markdown into text and fenced code blocks, in their order. Code is never changed. */
export function partsOf(
  markdown: string,
): readonly { readonly isCode: boolean; readonly text: string; readonly info?: string }[] {
  const parts: { isCode: boolean; text: string; info?: string }[] = [];
  let lines: string[] = [];
  let open: { readonly mark: string; readonly info: string } | undefined;
  const end = (): void => {
    if (lines.length > 0)
      parts.push({ isCode: open !== undefined, text: lines.join('\n'), ...(open && { info: open.info }) });
    lines = [];
  };
  for (const line of markdown.split('\n')) {
    const [, , mark = '', rest = ''] = FENCE.exec(line) ?? [];
    if (open === undefined && mark !== '' && !(mark.startsWith('`') && rest.includes('`'))) {
      end();
      open = { mark, info: rest.trim() };
      lines.push(line);
    } else if (open !== undefined && mark.startsWith(open.mark) && rest.trim() === '') {
      lines.push(line);
      end();
      open = undefined;
    } else {
      lines.push(line);
    }
  }
  end();
  return parts;
}

/** How links of a page are written: as addresses of pages or of their Markdown. */
export interface LinkRules {
  /** Path of the page's file below `docs/`. */
  readonly file: string;
  /** Whether a file below `docs/` is a page. */
  readonly isPage: (file: string) => boolean;
  /** Public path of the documentation, with a trailing slash. */
  readonly base: string;
  /** Extension of links to pages. */
  readonly extension: '' | '.md';
}

/**
 * Rewrites relative links between pages to addresses of the site. A link to another file of the repository becomes its
 * text and the path of the file, because the site has no such page. Code is left as it is.
 */
export const withLinks = (markdown: string, rules: LinkRules): string =>
  partsOf(markdown)
    .map(({ isCode, text }) => (isCode ? text : linksIn(text, rules)))
    .join('\n');

const CODE = /(?<code>(`+)[\s\S]*?[^`]\2(?!`))/;
const LINK = /(?<!!)\[(?<label>(?:[^[\]`]|`[^`]*`)*)\]\((?<linked>[^)\s<>]+)\)/;
/** Images, links around them, definitions and HTML attributes. */
const OTHER = /(?<before>\]\(<?|^\[[^\]]+\]:\s+|\b(?:href|src|srcset)=")(?<target>[^)\s>"]+)/;
const TARGET = new RegExp([CODE, LINK, OTHER].map(({ source }) => source).join('|'), 'gm');

interface Found {
  readonly code?: string;
  readonly label?: string;
  readonly linked?: string;
  readonly before?: string;
  readonly target?: string;
}

const linksIn = (text: string, rules: LinkRules): string =>
  text.replace(TARGET, (...found) => {
    const { code, label, linked, before, target }: Found = found.at(-1);
    if (code !== undefined) return code;
    if (label === undefined) return `${before}${addressOf(target!, rules) ?? target}`;
    const address = addressOf(linked!, rules);
    if (address !== undefined) return `[${label}](${address})`;
    const path = pathOf(linked!, rules);
    return path.startsWith(label.replaceAll('`', '')) ? label : `${label} (\`${path}\`)`;
  });

/** Returns the path from the root of the repository of the file that a relative link leads to. */
const pathOf = (target: string, { file }: Pick<LinkRules, 'file'>): string =>
  posix.join('docs', posix.dirname(file), target.replace(/#.*/s, ''));

/** Returns the address of a link's target; `undefined` for a file of the repository that is not on the site. */
export function addressOf(target: string, rules: LinkRules): string | undefined {
  if (/^([a-z][a-z\d+.-]*:|\/|#)/i.test(target)) return target;
  const { isPage, base, extension } = rules;
  const found = pathOf(target, rules);
  const end = /#.*/s.exec(target)?.[0] ?? '';
  if (found === 'README.md' || found === 'docs/README.md') return `${base}${extension === '' ? '' : 'index.md'}${end}`;
  if (!found.startsWith('docs/')) return undefined;
  const below = found.slice('docs/'.length).replace(/\/$/, '');
  const page = isPage(`${below}/README.md`) ? `${below}/README.md` : below;
  if (isPage(page)) return `${base}${slugOf(page)}${extension}${end}`;
  return below === 'openapi.json' || below.startsWith('images/') ? `${base}${below}` : undefined;
}

const TAB = /(?:^|\s)tab="([^"]{1,40})"/;

/**
 * Turns runs of consecutive code blocks with `tab="..."` in their info strings into tabs. The custom element of the site
 * adds the behaviour (`docs/site/src/tabs.ts`); without scripts the blocks follow each other under their names.
 */
export function withTabs(markdown: string): string {
  const parts = partsOf(markdown);
  const written: string[] = [];
  for (let at = 0; at < parts.length; at++) {
    const tabs: { readonly name: string; readonly text: string }[] = [];
    let next = at;
    for (; next < parts.length; next++) {
      const { isCode, text, info = '' } = parts[next]!;
      const name = isCode ? TAB.exec(info)?.[1] : undefined;
      if (name !== undefined) tabs.push({ name, text: text.replace(TAB, '') });
      // Blank lines separate blocks of the same tabs.
      else if (isCode || text.trim() !== '') break;
    }
    if (tabs.length < 2) {
      written.push(tabs.length === 1 ? tabs[0]!.text : parts[at]!.text);
      continue;
    }
    const panels = tabs.map(({ name, text }) => `<section data-tab="${escaped(name)}">\n\n${text}\n\n</section>`);
    written.push(`\n<code-tabs>\n${panels.join('\n')}\n</code-tabs>\n`);
    at = next - 1;
  }
  return written.join('\n');
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
