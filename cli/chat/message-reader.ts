import { createInterface, type Interface, type Key } from 'node:readline';
import type { Host } from '../shared/cli.ts';

/** Where the messages of a chat come from. */
export interface MessageReader {
  /** The next message; `undefined` at the end of the input, and when the user leaves. */
  message(): Promise<string | undefined>;
  /** Ends the reading, so that the process can end. */
  close(): void;
}

/** Reads messages from a pipe or a file: one in each line, of which a backslash at the end makes one with the next. */
export class LinesReader implements MessageReader {
  readonly #lines: AsyncIterator<string>;

  constructor({ stdin }: Pick<Host, 'stdin'>) {
    this.#lines = linesOf(stdin);
  }

  async message(): Promise<string | undefined> {
    let text = '';
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done) return text.trim() === '' ? undefined : text;
      if (value.endsWith('\\')) text += `${value.slice(0, -1)}\n`;
      else if ((text + value).trim() !== '') return text + value;
    }
  }

  close(): void {
    void this.#lines.return?.();
  }
}

async function* linesOf(stdin: Host['stdin']): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stdin) {
    const lines = (rest + (typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true }))).split(/\r?\n/);
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') yield rest;
}

const PROMPT = '> ';
const MORE = '… ';
const MAX_HISTORY = 500;
/** Switches of xterm's bracketed paste: what is pasted arrives between `paste-start` and `paste-end`. */
const PASTE = { on: '\u001b[?2004h', off: '\u001b[?2004l' };

/**
 * Reads messages and answers at a terminal, with arrow keys for the earlier ones. It reads only while something is asked:
 * Ctrl-C at other times is a signal of the process.
 */
export class TerminalReader implements MessageReader {
  readonly #host: Host;
  #history: string[] = [];
  /** Lines that were typed before they were asked for. */
  readonly #typedAhead: string[] = [];

  constructor(host: Host) {
    this.#host = host;
  }

  async message(): Promise<string | undefined> {
    for (;;) {
      const text = await this.#read(PROMPT, true);
      if (text === undefined || text.trim() !== '') return text;
    }
  }

  /** Nothing is read between two messages. */
  close(): void {}

  /** The answer to a question; `undefined` if the user leaves it with Ctrl-C or Ctrl-D, or `signal` aborts. */
  answer(prompt: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#read(prompt, false, signal);
  }

  #read(prompt: string, isMessage: boolean, signal?: AbortSignal): Promise<string | undefined> {
    if (signal?.aborted) return Promise.resolve(undefined);
    const { stderr, env } = this.#host;
    const stdin = this.#host.stdin as NodeJS.ReadStream;
    const readline = createInterface({
      input: stdin,
      output: stderr as NodeJS.WriteStream,
      terminal: true,
      history: isMessage ? [...this.#history] : [],
      historySize: isMessage ? MAX_HISTORY : 0,
      removeHistoryDuplicates: true,
      crlfDelay: Number.POSITIVE_INFINITY,
      prompt,
    });
    const canPaste = env.TERM !== 'dumb';
    if (canPaste) stderr.write(PASTE.on);
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    const lines: string[] = [];
    let isPasted = false;
    let isOver = false;
    const end = (text: string | undefined) => {
      if (isOver) return;
      isOver = true;
      if (text === undefined) stderr.write('\n');
      else if (isMessage) this.#remember(text);
      resolve(text);
    };
    const goOn = () => {
      readline.setPrompt(MORE);
      readline.prompt();
    };
    const add = (line: string) => {
      if (isOver) return void this.#typedAhead.push(line);
      if (isPasted) lines.push(line);
      else if (isMessage && line.endsWith('\\')) lines.push(line.slice(0, -1));
      else return end([...lines, line].join('\n'));
      goOn();
    };
    const onKey = (_: string | undefined, { name }: Key) => {
      if (name === 'paste-start' || name === 'paste-end') isPasted = name === 'paste-start';
    };
    const onAbort = () => end(undefined);
    stdin.on('keypress', onKey);
    signal?.addEventListener('abort', onAbort);
    readline.on('line', add);
    readline.on('close', () => end(undefined));
    readline.on('SIGINT', () => {
      if (readline.line === '' && lines.length === 0) return end(undefined);
      lines.length = 0;
      discardLine(readline);
      readline.setPrompt(prompt);
      stderr.write('\n');
      readline.prompt();
    });
    readline.prompt();
    const [ahead] = this.#typedAhead.splice(0, 1);
    if (ahead !== undefined) readline.write(`${ahead}\n`);
    return promise.finally(() => {
      stdin.off('keypress', onKey);
      signal?.removeEventListener('abort', onAbort);
      readline.close();
      if (canPaste) stderr.write(PASTE.off);
    });
  }

  #remember(text: string): void {
    const entry = text.replaceAll('\n', ' ');
    if (entry.trim() === '') return;
    this.#history = [entry, ...this.#history.filter((other) => other !== entry)].slice(0, MAX_HISTORY);
  }
}

function discardLine(readline: Interface): void {
  readline.write(null, { ctrl: true, name: 'e' });
  readline.write(null, { ctrl: true, name: 'u' });
}
