import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { ServiceLogLine } from '#core/ports/service-host.ts';

/** Maximum buffer for a slow reader, such as a log driver whose service does not respond. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** Log drivers of containers split longer lines, whose parts are not valid JSON. */
const MAX_LINE_BYTES = 16 * 1024;

/**
 * Writes the log of an instance to its stdout, one JSON object per line: `at` in epoch milliseconds, `severity`,
 * `message`, and `platform` in the runner's own lines. Never blocks and never throws: a logging problem must not stop a
 * service.
 */
export class LogLines {
  readonly #out: WriteStream;
  #lost = 0;

  /** @param fd Descriptor that nothing else writes to. */
  constructor(fd: number) {
    // `process.stdout` would block until a pipe is read.
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

  /** Writes a line of the runner itself. */
  say(message: string, severity: ServiceLogLine['severity'] = 'INFO', more: object = {}): void {
    const line = { at: Date.now(), severity, message: `[platform] ${message}`, source: 'platform' } as const;
    this.write(line, { platform: true, ...more });
  }

  /** Resolves when everything is flushed. */
  async end(): Promise<void> {
    this.#out.end();
    await finished(this.#out).catch(() => {});
  }
}

/** Encodes a line as JSON, with as much of the message as fits after escaping. */
function textOf(line: ServiceLogLine, more: object): string {
  let { message } = line;
  let text = JSON.stringify({ ...line, ...more });
  while (message !== '' && Buffer.byteLength(text) > MAX_LINE_BYTES) {
    message = message.slice(0, Math.floor(message.length * 0.75));
    text = JSON.stringify({ ...line, message: `${message} [... cut]`, ...more });
  }
  return text;
}
