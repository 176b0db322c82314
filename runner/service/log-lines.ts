import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { ServiceLogLine } from '#core/ports/service-host.ts';

/** Limit of lines that wait for a slow reader, such as a log driver whose service does not answer. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** Log drivers of containers take longer lines apart, and a part is no JSON any more. */
const MAX_LINE_BYTES = 16 * 1024;

/**
 * The log of an instance on its stdout, a JSON object a line: `at` in epoch milliseconds, `severity`, `message`, and `platform`
 * in lines that are the runner's own. Never waits and never fails: a log is no reason to stop a service.
 */
export class LogLines {
  readonly #out: WriteStream;
  #lost = 0;

  /** @param fd nothing else may write to it */
  constructor(fd: number) {
    // Not `process.stdout`, which waits for the reader of a pipe.
    this.#out = createWriteStream('', { fd, autoClose: false }).on('error', () => {});
  }

  write(line: ServiceLogLine, more: object = {}): void {
    if (this.#out.writableLength > MAX_WAITING_BYTES) {
      this.#lost += 1;
      return;
    }
    const lost = this.#lost;
    this.#lost = 0;
    if (lost > 0) this.say(`${lost} lines were lost: the log was too slow for them.`, 'WARNING');
    this.#out.write(`${textOf(line, more)}\n`);
  }

  /** A line of the runner itself. */
  say(message: string, severity: ServiceLogLine['severity'] = 'INFO', more: object = {}): void {
    const line = { at: Date.now(), severity, message: `[platform] ${message}`, source: 'platform' } as const;
    this.write(line, { platform: true, ...more });
  }

  /** Resolves when everything is written. */
  async end(): Promise<void> {
    this.#out.end();
    await finished(this.#out).catch(() => {});
  }
}

/** As JSON, with as much of the message as fits, whatever its characters take there. */
function textOf(line: ServiceLogLine, more: object): string {
  let { message } = line;
  let text = JSON.stringify({ ...line, ...more });
  while (message !== '' && Buffer.byteLength(text) > MAX_LINE_BYTES) {
    message = message.slice(0, Math.floor(message.length * 0.75));
    text = JSON.stringify({ ...line, message: `${message} [... cut]`, ...more });
  }
  return text;
}
