import domino from '@mixmark-io/domino';
import TurndownService from 'turndown';

/** Parts of a page outside its main content. */
const CHROME = [
  'script, style, template, noscript, iframe, object, svg, canvas',
  'nav, aside, footer, dialog, button, input, label, select, textarea',
  '[hidden], [aria-hidden="true"], [role="navigation"], [role="banner"], [role="contentinfo"], [role="dialog"]',
].join(', ');
/** Minimum share of the text for an element marked as main content to be used as such. */
const MAIN_SHARE = 0.5;

/** An invalid input, with a message for the caller. */
export class InputError extends Error {
  static CODE = 'BAD_INPUT';
  code = InputError.CODE;
}

/** Converts a page. `base` is its URL, if known. Throws InputError for a page that is nested too deeply. */
export function toMarkdown({ html, base }) {
  try {
    return convert(domino.createDocument(html), base);
  } catch (error) {
    if (error.name !== 'RangeError') throw error;
    throw new InputError('html: is nested too deeply to be converted');
  }
}

function convert(document, base) {
  for (const element of all(document, CHROME)) element.remove();
  const meta = (...names) =>
    names
      .map((name) => document.querySelector(`meta[name="${name}"], meta[property="${name}"]`))
      .map((element) => oneLine(element?.getAttribute('content')))
      .find(Boolean);
  const title = oneLine(document.querySelector('title')?.textContent) || meta('og:title');
  const description = meta('description', 'og:description');
  const language = oneLine(document.documentElement.getAttribute('lang'));

  const main = findMain(document.body ?? document.documentElement);
  makeAbsolute(main, resolver(document, base));
  for (const pre of all(main, 'pre')) wrapInCode(document, pre);
  const markdown = markdownOf(main);
  const links = new Map();
  for (const link of all(main, 'a[href]')) {
    const url = link.getAttribute('href');
    const shown = oneLine(link.textContent) || oneLine(link.querySelector('img')?.getAttribute('alt'));
    if (!links.has(url)) links.set(url, { text: shown, url });
  }
  return {
    title: title || oneLine(main.querySelector('h1')?.textContent) || null,
    description: description || null,
    language: language || null,
    markdown,
    words: markdown.replace(/\]\(\S*?\)/g, ']').match(/[\p{L}\p{N}][\p{L}\p{N}'’-]*/gu)?.length ?? 0,
    links: [...links.values()],
  };
}

/** Copies the list: the parser's own lists change while elements are removed, and some are not iterable. */
const all = (root, selector) => Array.from(root.querySelectorAll(selector));

const oneLine = (given) => (given ?? '').replace(/\s+/g, ' ').trim();

function findMain(body) {
  const mains = all(body, 'main, [role="main"]');
  const [main, ...others] = mains.length > 0 ? mains : all(body, 'article');
  const length = (element) => oneLine(element.textContent).length;
  // Several articles form a list, all of which is the main content.
  return main && others.length === 0 && length(main) >= length(body) * MAIN_SHARE ? main : body;
}

/** Returns a function that resolves URLs; it returns `undefined` for links that do not work outside the page. */
function resolver(document, base) {
  const parse = (address, from) => (URL.canParse(address, from) ? new URL(address, from) : undefined);
  const root = parse(document.querySelector('base[href]')?.getAttribute('href') ?? '', base)?.href ?? base;
  return (address) => {
    if (!address || address.startsWith('#')) return undefined;
    const url = parse(address.trim(), root);
    return url && ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : undefined;
  };
}

function makeAbsolute(main, resolve) {
  for (const image of all(main, 'img')) {
    const source = resolve(image.getAttribute('data-src') || image.getAttribute('src'));
    // Images without a description are useless in text.
    if (source && oneLine(image.getAttribute('alt'))) image.setAttribute('src', source);
    else image.remove();
  }
  for (const link of all(main, 'a[href]')) {
    const url = resolve(link.getAttribute('href'));
    const isSeen = oneLine(link.textContent) !== '' || Boolean(link.querySelector('img'));
    if (url && isSeen) link.setAttribute('href', url);
    else link.removeAttribute('href');
  }
}

/** Turndown treats `pre` as code only if it contains `code`. */
function wrapInCode(document, pre) {
  if (pre.querySelector('code')) return;
  const code = document.createElement('code');
  code.className = pre.className;
  code.textContent = pre.textContent;
  pre.textContent = '';
  pre.appendChild(code);
}

function markdownOf(main) {
  const turndown = new TurndownService({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' });
  turndown.addRule('strikethrough', { filter: ['del', 's'], replacement: (content) => `~~${content}~~` });
  turndown.addRule('item', { filter: 'li', replacement: itemOf });
  turndown.addRule('table', {
    filter: (node) => node.nodeName === 'TABLE' && isDataTable(node),
    replacement: (_, table) => `\n\n${tableOf(turndown, table)}\n\n`,
  });
  return turndown.turndown(main).trim();
}

/** Formats a list item without turndown's padding of three spaces. */
function itemOf(content, item) {
  const list = item.parentNode;
  const start = Number.parseInt(list.getAttribute?.('start') ?? '1', 10);
  const number = () => (Number.isNaN(start) ? 1 : start) + Array.prototype.indexOf.call(list.children, item);
  const prefix = list.nodeName === 'OL' ? `${number()}. ` : '- ';
  const indented = content.trim().replace(/\n(?=[^\n])/g, `\n${' '.repeat(prefix.length)}`);
  return `${prefix}${indented}${item.nextSibling ? '\n' : ''}`;
}

/** Layout tables contain other tables, or are one cell wide. */
function isDataTable(table) {
  if (table.querySelector('table, ul, ol, pre, h1, h2, h3')) return false;
  return all(table, 'tr').some((row) => row.querySelectorAll('th, td').length > 1);
}

/** Markdown tables always have a header; if the page has none, the first row is used. */
function tableOf(turndown, table) {
  const rows = all(table, 'tr')
    .map((row) => all(row, 'th, td').flatMap((cell) => cellsOf(turndown, cell)))
    .filter((row) => row.length > 0);
  const width = Math.max(...rows.map((row) => row.length));
  const lines = rows.map((row) => `| ${[...row, ...Array(width - row.length).fill('')].join(' | ')} |`);
  const caption = oneLine(table.querySelector('caption')?.textContent);
  return [...(caption ? [caption, ''] : []), lines[0], `|${' --- |'.repeat(width)}`, ...lines.slice(1)].join('\n');
}

function cellsOf(turndown, cell) {
  const text = oneLine(turndown.turndown(cell)).replaceAll('|', '\\|');
  const span = Math.min(Number.parseInt(cell.getAttribute('colspan') ?? '1', 10) || 1, 100);
  return [text, ...Array(Math.max(span - 1, 0)).fill('')];
}
