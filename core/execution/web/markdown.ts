import { setImmediate } from 'node:timers/promises';
import { Parser } from 'htmlparser2';

/** Length of the parts that are parsed in one tick of the event loop. */
const PART_CHARACTERS = 16 * 1024;
/** Deeper pages are cut: the parser takes time in proportion to the depth for each tag. Browsers nest 512 elements. */
const MAX_DEPTH = 512;
/** Lists and quotes further inside are not indented any more. */
const MAX_INDENT = 8;
const MAX_ADDRESS = 2048;

const SKIPPED = new Set(
  'script style noscript template svg math iframe object embed canvas audio video select button textarea'.split(' '),
);
const BLOCKS = new Set(
  'address article aside details dialog dd div dl dt fieldset figcaption figure footer form header hgroup main nav p section summary table tbody thead tfoot caption'.split(
    ' ',
  ),
);
const INLINE: Readonly<Record<string, string>> = { strong: '**', b: '**', em: '_', i: '_', code: '`', del: '~~' };
const HEADING = /^h([1-6])$/;

export interface MarkdownPage {
  /** Absent if the page has none. */
  readonly title?: string;
  readonly markdown: string;
  /** Whether the page was too long, or nested too deeply, to be written whole. */
  readonly isCut: boolean;
}

/**
 * Writes the text of a page as Markdown, in parts between which other work goes on. Scripts, and what the page hides, are
 * left out. Throws the reason of `signal` once it is aborted.
 *
 * @param base Address of the page, for its links.
 */
export async function markdownOf(
  html: string,
  {
    base,
    maxCharacters,
    signal,
  }: { readonly base: string; readonly maxCharacters: number; readonly signal: AbortSignal },
): Promise<MarkdownPage> {
  const writer = new MarkdownWriter(base, maxCharacters);
  const parser = new Parser(writer, { decodeEntities: true });
  try {
    for (let at = 0; at < html.length; at += PART_CHARACTERS) {
      if (at > 0) await setImmediate();
      signal.throwIfAborted();
      parser.write(html.slice(at, at + PART_CHARACTERS));
    }
    parser.end();
  } catch (error) {
    if (error !== FULL) throw error;
  }
  return writer.page();
}

/** Thrown to leave the parser. */
const FULL = new Error('the page is full');

interface Open {
  readonly name: string;
  /** Whether its contents are left out. */
  readonly isHidden: boolean;
  readonly href?: string | undefined;
  /** Number of the next item of an ordered list. */
  next?: number;
}

/** Handles the events of the parser. */
class MarkdownWriter {
  readonly #base: string;
  readonly #max: number;
  readonly #parts: string[] = [];
  #length = 0;
  readonly #open: Open[] = [];
  #hidden = 0;
  #pre = 0;
  #title = '';
  /** Line ends to write before the next text. */
  #lines = 0;
  #hasSpace = false;
  /** Marks to write before the next text: those of elements without text are never written. */
  #marks: string[] = [];
  #cells = 0;
  #rows = 0;
  #isFull = false;

  constructor(base: string, max: number) {
    this.#base = base;
    this.#max = max;
  }

  page(): MarkdownPage {
    const title = this.#title.replace(/\s+/g, ' ').trim().slice(0, 300);
    const markdown = this.#parts.join('').trim();
    return { ...(title !== '' && { title }), markdown, isCut: this.#isFull };
  }

  onopentag(name: string, attributes: { readonly [name: string]: string }): void {
    if (this.#open.length >= MAX_DEPTH) this.#stop();
    const isHidden = SKIPPED.has(name) || isInvisible(attributes);
    const open: Open = { name, isHidden, href: name === 'a' ? this.#address(attributes.href) : undefined };
    this.#open.push(open);
    if (isHidden) this.#hidden += 1;
    if (this.#hidden > 0) return;
    const heading = HEADING.exec(name);
    if (heading) this.#begin(2, `${'#'.repeat(Number(heading[1]))} `);
    else if (BLOCKS.has(name)) this.#break(2);
    else if (name in INLINE && this.#pre === 0) this.#marks.push(INLINE[name]!);
    else {
      switch (name) {
        case 'a':
          if (open.href !== undefined) this.#marks.push('[');
          break;
        case 'br':
          this.#break(1);
          break;
        case 'hr':
          this.#begin(2, '---');
          this.#flush();
          this.#break(2);
          break;
        case 'ul':
        case 'ol':
          open.next = 1;
          this.#break(this.#lists() > 1 ? 1 : 2);
          break;
        case 'li':
          this.#begin(1, this.#bullet());
          break;
        case 'blockquote':
          this.#begin(2, '> ');
          break;
        case 'pre':
          this.#begin(2, '```\n');
          this.#pre += 1;
          break;
        case 'tr':
          this.#break(1);
          this.#cells = 0;
          break;
        case 'td':
        case 'th':
          this.#cells += 1;
          this.#text(this.#cells === 1 ? '| ' : ' | ', true);
          break;
        case 'img':
          this.#image(attributes);
          break;
      }
    }
  }

  onclosetag(name: string): void {
    const open = this.#open.pop();
    if (open === undefined) return;
    if (open.isHidden) this.#hidden -= 1;
    if (this.#hidden > 0 || open.isHidden) return;
    if (HEADING.test(name) || BLOCKS.has(name)) {
      this.#break(2);
      if (name === 'table') this.#rows = 0;
    } else if (name in INLINE && this.#pre === 0) this.#close(INLINE[name]!, INLINE[name]!);
    else if (name === 'a' && open.href !== undefined) this.#close('[', `](${open.href})`);
    else if (name === 'tr' && this.#cells > 0) {
      this.#text(' |', true);
      this.#rows += 1;
      if (this.#rows === 1) this.#text(`\n|${' --- |'.repeat(Math.min(this.#cells, 100))}`, true);
      this.#cells = 0;
      this.#break(1);
    } else if (name === 'pre') {
      this.#pre -= 1;
      this.#write('\n```');
      this.#break(2);
    } else if (name === 'ul' || name === 'ol' || name === 'blockquote') this.#break(this.#lists() > 0 ? 1 : 2);
  }

  ontext(text: string): void {
    if (this.#hidden > 0) return;
    const name = this.#open.at(-1)?.name;
    if (name === 'title') {
      if (this.#title.length < 1000) this.#title += text;
      return;
    }
    if (this.#pre > 0) {
      this.#flush();
      this.#write(text);
      return;
    }
    const words = text.replace(/[\s\u00a0]+/g, ' ');
    if (words.startsWith(' ')) this.#hasSpace = true;
    const inner = words.trim();
    if (inner === '') return;
    this.#text(inner);
    this.#hasSpace = words.endsWith(' ');
  }

  #text(text: string, isMark = false): void {
    if (isMark) this.#hasSpace = false;
    this.#flush();
    this.#write(text);
  }

  /** Begins a block whose first text follows `mark`. */
  #begin(lines: number, mark: string): void {
    this.#break(lines);
    this.#marks.push(mark);
  }

  #break(lines: number): void {
    this.#lines = Math.max(this.#lines, lines);
    this.#hasSpace = false;
  }

  /** Closes what `mark` opened; what has no text leaves nothing. */
  #close(mark: string, end: string): void {
    const at = this.#marks.lastIndexOf(mark);
    if (at >= 0) this.#marks.splice(at, 1);
    else this.#write(end);
  }

  #flush(): void {
    if (this.#length > 0) {
      if (this.#lines > 0) this.#write(`${'\n'.repeat(this.#lines)}`);
      else if (this.#hasSpace) this.#write(' ');
    }
    this.#lines = 0;
    this.#hasSpace = false;
    const marks = this.#marks;
    if (marks.length > 0) {
      this.#marks = [];
      this.#write(marks.join(''));
    }
  }

  #write(text: string): void {
    const left = this.#max - this.#length;
    this.#parts.push(text.slice(0, left));
    this.#length += text.length;
    if (text.length > left) this.#stop();
  }

  #stop(): never {
    this.#isFull = true;
    throw FULL;
  }

  #lists(): number {
    return this.#open.filter(({ next }) => next !== undefined).length;
  }

  #bullet(): string {
    const list = this.#open.findLast(({ next }) => next !== undefined);
    const indent = '  '.repeat(Math.min(Math.max(this.#lists() - 1, 0), MAX_INDENT));
    if (list?.name !== 'ol') return `${indent}- `;
    const number = list.next!;
    list.next = number + 1;
    return `${indent}${number}. `;
  }

  #image({ alt = '', src }: { readonly [name: string]: string }): void {
    const address = this.#address(src);
    const text = alt.replace(/\s+/g, ' ').trim().slice(0, 500);
    if (text !== '' && address !== undefined) this.#text(`![${text}](${address})`);
  }

  /** Returns an absolute address of the web. */
  #address(given: string | undefined): string | undefined {
    if (given === undefined || given.length > MAX_ADDRESS || given.startsWith('#')) return undefined;
    const url = URL.parse(given.trim(), this.#base);
    return url?.protocol === 'https:' || url?.protocol === 'http:' ? url.href : undefined;
  }
}

/** Whether the page hides an element from people. */
const isInvisible = ({ hidden, style = '', 'aria-hidden': isHidden }: { readonly [name: string]: string }): boolean =>
  hidden !== undefined ||
  isHidden === 'true' ||
  /display\s*:\s*none|visibility\s*:\s*hidden/i.test(style.slice(0, 1000));
