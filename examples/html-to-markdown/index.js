import { text } from 'node:stream/consumers';
import TurndownService from 'turndown';

/** Parts of a page that are not what it is about. */
const CHROME = ['script', 'style', 'noscript', 'nav', 'footer', 'aside', 'form', 'iframe', 'svg', 'title'];

function fail(message) {
  process.stdout.write(JSON.stringify({ error: message }));
  process.exit(1);
}

function absolute(href, base) {
  if (!href || href.startsWith('#')) return undefined;
  const url = URL.parse(href, base);
  return url && ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : undefined;
}

function convert({ html, base_url: base }) {
  const turndown = new TurndownService({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' });
  turndown.remove(CHROME);
  turndown.addRule('link', {
    filter: 'a',
    replacement(content, node) {
      const href = absolute(node.getAttribute('href'), base);
      if (href === undefined || content.trim() === '') return content;
      return `[${content.trim()}](${href})`;
    },
  });
  turndown.addRule('image', {
    filter: 'img',
    replacement(_, node) {
      const source = absolute(node.getAttribute('src'), base);
      const description = (node.getAttribute('alt') ?? '').trim();
      return source && description ? `![${description}](${source})` : '';
    },
  });
  const markdown = turndown.turndown(html).trim();
  // From the result: what was left out has no links to follow.
  const links = new Set([...markdown.matchAll(/(?<!!)\[[^\]]*\]\(([^)\s]+)\)/g)].map((match) => match[1]));
  const title = /<title[^>]*>([^<]*)<\/title>/i.exec(html)?.[1]?.trim() || /^# (.+)$/m.exec(markdown)?.[1] || null;
  return { title, markdown, words: markdown.split(/\s+/).filter(Boolean).length, links: [...links] };
}

let input;
try {
  input = JSON.parse(await text(process.stdin));
} catch {
  fail('the input is not JSON');
}
if (typeof input?.html !== 'string' || input.html.trim() === '') fail('html: must be the text of a page');
if (input.base_url !== undefined && !URL.canParse(input.base_url)) fail('base_url: must be an absolute address');
process.stdout.write(JSON.stringify(convert(input)));
