import { stripVTControlCharacters, styleText } from 'node:util';

/** Where a command writes; of `process.stdout` only what is used. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface OutputSettings {
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** One JSON document, or one per line of a stream. Always so where stdout is no terminal. */
  readonly json: boolean;
  readonly quiet: boolean;
  readonly color: boolean;
}

type Style = Parameters<typeof styleText>[0];

/** stdout is the result and nothing else; all that only people read goes to stderr. */
export class Output {
  readonly #settings: OutputSettings;
  readonly isJson: boolean;

  constructor(settings: OutputSettings) {
    this.#settings = settings;
    this.isJson = settings.json || !settings.stdout.isTTY;
  }

  get width(): number {
    // Some pseudo terminals say 0.
    return this.#settings.stdout.columns || 80;
  }

  /** The result of a command: `value` as JSON, or what `show` makes of it for people. */
  result<T>(value: T, show: (value: T) => string = (all) => JSON.stringify(all, null, 2)): void {
    const text = this.isJson ? JSON.stringify(value, null, this.#settings.stdout.isTTY ? 2 : 0) : show(value);
    if (text !== '') this.#settings.stdout.write(`${text}\n`);
  }

  /** One of many results that come one after the other. */
  item<T>(value: T, show: (value: T) => string): void {
    this.#settings.stdout.write(`${this.isJson ? JSON.stringify(value) : show(value)}\n`);
  }

  /** Text of a result as it comes, without a line end; not in JSON. */
  part(text: string): void {
    if (!this.isJson) this.#settings.stdout.write(text);
  }

  note(text: string): void {
    if (!this.#settings.quiet) this.#settings.stderr.write(`${text}\n`);
  }

  /** As {@link note}, also when told to be quiet. */
  warn(text: string): void {
    this.#settings.stderr.write(`${this.style('yellow', 'warning:')} ${text}\n`);
  }

  error(text: string): void {
    this.#settings.stderr.write(`${text}\n`);
  }

  style(style: Style, text: string): string {
    return this.#settings.color ? styleText(style, text, { validateStream: false }) : text;
  }

  status(status: string): string {
    return this.style(STATUS_STYLES[status] ?? 'reset', status);
  }
}

const STATUS_STYLES: { readonly [status: string]: Style } = {
  completed: 'green',
  success: 'green',
  running: 'cyan',
  queued: 'cyan',
  failed: 'red',
  error: 'red',
  timeout: 'red',
  cancelled: 'yellow',
  paused: 'yellow',
};

const GAP = '  ';
const widthOf = (text: string): number => stripVTControlCharacters(text).length;

/** Columns under their titles; the widest columns are cut so that a line fits into `width`. */
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
  if (own > width) return `${stripVTControlCharacters(cell).slice(0, width - 1)}…`;
  return isLast ? cell : cell + ' '.repeat(width - own);
}

/** `name  value` lines of an object, without members that are null. */
export function members(value: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, member]) => `${name.padEnd(width)}${GAP}${textOf(member)}`).join('\n');
}

/** A value in one line. Control characters of agents must not reach the terminal. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return printable(text).replaceAll(/\s*\n\s*/g, ' ');
}

/** Text of agents without escape sequences: they could rewrite what the terminal shows. */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed.
  stripVTControlCharacters(text).replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '');

export const duration = (ms: number | null | undefined): string => {
  if (ms === null || ms === undefined) return '-';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
};
