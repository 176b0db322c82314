import { stripVTControlCharacters, styleText } from 'node:util';
import { escapeControls, escapeForTerminal } from '#core/base/control-characters.ts';
import { sizeText } from '#core/base/size-text.ts';

/** Output stream of a command: the part of `process.stdout` that is used. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface OutputSettings {
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Prints one JSON document, or one per line of a stream. Always on if stdout is not a terminal. */
  readonly json: boolean;
  readonly quiet: boolean;
  readonly color: boolean;
  /** Whether a line of stderr may be redrawn, because it is a terminal. */
  readonly isLive: boolean;
}

type Style = Parameters<typeof styleText>[0];

/**
 * Output of commands. Only the result goes to stdout; everything else goes to stderr. All output passes through this
 * class, which escapes control characters: texts of agents may be hostile.
 */
export class Output {
  readonly #settings: OutputSettings;
  readonly isJson: boolean;
  /** Whether the cursor is in the line of a progress bar. */
  #isInBar = false;
  #footer = '';
  /** Columns of the footer that are on the screen. */
  #drawn = 0;
  /** Whether the last text ended its line: below another the footer has no place. */
  #isAtLineStart = true;

  constructor(settings: OutputSettings) {
    this.#settings = settings;
    this.isJson = settings.json || !settings.stdout.isTTY;
  }

  get width(): number {
    // Some pseudo-terminals report a width of 0.
    return this.#settings.stdout.columns || 80;
  }

  /** Prints the result of a command: `value` as JSON, or its text from `show`. */
  result<T>(value: T, show: (value: T) => string = (all) => JSON.stringify(all, null, 2)): void {
    const text = this.isJson ? JSON.stringify(value, null, this.#settings.stdout.isTTY ? 2 : 0) : show(value);
    if (text !== '') this.#print(`${text}\n`);
  }

  /** Whether a footer is shown: only people at a terminal see it. */
  get isLive(): boolean {
    const { isLive, quiet } = this.#settings;
    return isLive && !quiet && !this.isJson;
  }

  /** Shows a line below all other output, in the place of the one before; an empty text removes it. */
  footer(text: string): void {
    if (!this.isLive || text === this.#footer) return;
    this.#eraseFooter();
    this.#footer = text;
    this.#drawFooter();
  }

  #drawFooter(): void {
    if (this.#footer === '' || !this.#isAtLineStart || this.#isInBar) return;
    const shown = cut(this.#safe(this.#footer), this.width - 1);
    this.#drawn = widthOf(shown);
    this.#settings.stderr.write(this.style('dim', shown));
  }

  #eraseFooter(): void {
    if (this.#drawn === 0) return;
    this.#settings.stderr.write(`\r${' '.repeat(this.#drawn)}\r`);
    this.#drawn = 0;
  }

  /** Prints one of several consecutive results. */
  item<T>(value: T, show: (value: T) => string): void {
    this.#print(`${this.isJson ? JSON.stringify(value) : show(value)}\n`);
  }

  /** Prints a part of a result without a line break; nothing in JSON mode. */
  part(text: string): void {
    if (!this.isJson) this.#print(text);
  }

  /** Prints text that is not JSON, such as a stream; unchanged, unless stdout is a terminal. */
  raw(text: string): void {
    this.#write(this.#settings.stdout.isTTY ? this.#safe(text) : text);
  }

  #print(text: string): void {
    this.#write(this.#safe(text));
  }

  #write(text: string): void {
    this.#eraseFooter();
    this.#settings.stdout.write(text);
    if (text !== '') this.#isAtLineStart = text.endsWith('\n');
    this.#drawFooter();
  }

  #safe(text: string): string {
    return this.#settings.color ? escapeForTerminal(text) : escapeControls(text.replaceAll('\r\n', '\n'));
  }

  note(text: string): void {
    if (!this.#settings.quiet) this.#say(text);
  }

  /**
   * Returns a function that shows on stderr how many of `total` bytes are done: a progress bar on a terminal, else one
   * line at the start and, from a megabyte on, one at each quarter. Prints nothing with --quiet or --json.
   */
  progress(title: string, total: number): (done: number) => void {
    const what = this.#safe(title);
    const { quiet, json, isLive } = this.#settings;
    const steps = isLive ? BAR_WIDTH : total < MB ? 0 : 4;
    let shown = -1;
    return (done) => {
      const step = Math.floor((steps * done) / Math.max(total, 1));
      if (quiet || json || step <= shown) return;
      shown = step;
      const whole = sizeText(total);
      this.#eraseFooter();
      if (!isLive) return this.#say(step === 0 ? `${what} ${whole}` : `${what} ${sizeText(done)} of ${whole}`);
      this.#isInBar = step < steps;
      const bar = `[${'='.repeat(step).padEnd(steps)}]`;
      const text = `\r${what} ${bar} ${sizeText(done)} of ${whole}`;
      this.#settings.stderr.write(this.#isInBar ? text : `${text}${' '.repeat(BLANKS)}\n`);
    };
  }

  /** Prints a warning, even with --quiet. */
  warn(text: string): void {
    this.#say(`${this.style('yellow', 'warning:')} ${text}`);
  }

  error(text: string): void {
    this.#say(text);
  }

  #say(line: string): void {
    this.#eraseFooter();
    this.#settings.stderr.write(`${this.#isInBar ? '\n' : ''}${this.#safe(line)}\n`);
    this.#isInBar = false;
    this.#isAtLineStart = true;
    this.#drawFooter();
  }

  style(style: Style, text: string): string {
    return this.#settings.color ? styleText(style, text, { validateStream: false }) : text;
  }

  status(status: string): string {
    return this.style(STATUS_STYLES[status] ?? 'reset', status);
  }
}

const MB = 1024 ** 2;
const BAR_WIDTH = 20;
/** Spaces that overwrite the rest of a longer previous line. */
const BLANKS = 8;

const STATUS_STYLES: { readonly [status: string]: Style } = {
  completed: 'green',
  success: 'green',
  running: 'cyan',
  queued: 'cyan',
  waiting: 'yellow',
  failed: 'red',
  error: 'red',
  timeout: 'red',
  cancelled: 'yellow',
  paused: 'yellow',
};

const GAP = '  ';

/** Characters that take two columns (Unicode's East Asian Width, UAX 11: wide and full-width). */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;
const EMOJI = /^(?:\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\p{Regional_Indicator})/u;
const INVISIBLE = /^[\p{Mark}\p{Format}\p{Control}]+$/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the whole of ASCII.
const ASCII = /^[\u0000-\u007f]*$/;

let segmenter: Intl.Segmenter | undefined;

/** Splits text into user-perceived characters: an emoji of several parts is one. */
function charactersOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter();
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

function widthOfCharacter(character: string): number {
  if (INVISIBLE.test(character)) return 0;
  return WIDE.test(character) || EMOJI.test(character) ? 2 : 1;
}

/** Returns the number of columns that a text takes on a terminal. */
export function widthOf(text: string): number {
  const shown = stripVTControlCharacters(text);
  if (ASCII.test(shown)) return shown.length;
  return charactersOf(shown).reduce((sum, character) => sum + widthOfCharacter(character), 0);
}

/** Truncates a text, without styles, to at most `width` columns. */
function cut(text: string, width: number): string {
  let room = width;
  let end = '';
  for (const character of charactersOf(stripVTControlCharacters(text))) {
    room -= widthOfCharacter(character);
    if (room < 0) break;
    end += character;
  }
  return end;
}

/** Formats rows under titles; truncates the widest columns so that a line fits into `width`. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[], width: number): string {
  if (rows.length === 0) return '';
  const all = [titles, ...rows];
  const widths = titles.map((_, column) => Math.max(...all.map((row) => widthOf(row[column]!))));
  const room = width - GAP.length * (titles.length - 1);
  while (widths.reduce((sum, each) => sum + each, 0) > room) {
    const widest = widths.indexOf(Math.max(...widths));
    if (widths[widest]! <= MIN_COLUMN) break;
    widths[widest]!--;
  }
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => padded(cell, widths[column]!, column === titles.length - 1)).join(GAP);
  return all.map(line).join('\n');
}

const MIN_COLUMN = 8;

function padded(cell: string, width: number, isLast: boolean): string {
  const own = widthOf(cell);
  if (own <= width) return isLast ? cell : cell + ' '.repeat(width - own);
  const short = `${cut(cell, width - 1)}…`;
  // One column stays empty if a wide character did not fit.
  return isLast ? short : short + ' '.repeat(width - widthOf(short));
}

type Members = Readonly<Record<string, unknown>>;

/** Formats an object as `name  value` lines, without null members; members that hold rows follow as tables. */
export function members(value: Members, columns = 80): string {
  const shown = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
  const tables = shown.flatMap(([name, member]) => {
    const rows = rowsOf(member);
    return rows === undefined ? [] : [{ name, rows }];
  });
  const lines = shown.filter(([name]) => !tables.some((each) => each.name === name));
  const width = Math.max(0, ...lines.map(([name]) => name.length));
  return [
    lines.map(([name, member]) => `${name.padEnd(width)}${GAP}${listText(member)}`).join('\n'),
    ...tables.map(({ name, rows }) => `${name}\n${tableOf(rows, columns)}`),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** Returns the rows of a list of objects, or of an object whose members are objects. */
function rowsOf(value: unknown): readonly Members[] | undefined {
  if (Array.isArray(value)) return value.length > 0 && value.every(isObject) ? value : undefined;
  if (!isObject(value)) return undefined;
  const entries = Object.entries(value);
  if (entries.length === 0 || !entries.every(([, member]) => isObject(member))) return undefined;
  return entries.map(([name, member]) => ({ name, ...(member as Members) }));
}

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function tableOf(rows: readonly Members[], columns: number): string {
  const titles = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return table(
    titles.map((title) => title.replaceAll('_', ' ')),
    rows.map((row) => titles.map((title) => listText(row[title]))),
    columns,
  );
}

const listText = (value: unknown): string =>
  Array.isArray(value) && value.every((each) => typeof each !== 'object')
    ? value.map(textOf).join(', ') || '-'
    : textOf(value);

/** Formats a value on one line. Control characters of agents must not reach the terminal. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const lines = printable(text).split('\n');
  return lines.length === 1
    ? lines[0]!
    : lines
        .map((line) => line.trim())
        .filter(Boolean)
        .join(' ');
}

/** Removes escape sequences from text of agents, which could rewrite the terminal. */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed.
  stripVTControlCharacters(text).replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '');

export const duration = (ms: number | null | undefined): string => {
  if (ms === null || ms === undefined) return '-';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
};
