import { appendFile, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LOG_SEVERITIES, type ServiceLogLine, type ServiceLogQuery } from '#core/ports/service-host.ts';

/**
 * Maximum size of one log file. A service has the current file and two older ones
 * (`docs/interface/service-instances.md#logs`).
 */
const MAX_FILE_BYTES = 10 * 1024 * 1024;
const FILES = ['log.jsonl', 'log.1.jsonl', 'log.2.jsonl'] as const;
/** Time for which lines are batched. */
const WRITE_MS = 100;
/** Maximum size of buffered lines. If the disk is slower than the service, further lines are dropped. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const READ_BYTES = 256 * 1024;
const NEWLINE = 10;

/** Log of one service in its own folder: JSON lines, newest last, in rotated files. */
export class LogFile {
  readonly #folder: string;
  #waiting: string[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #bytes: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #written: Promise<void> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Never throws and never blocks: a logging problem must not stop a service. */
  write(line: ServiceLogLine): void {
    if (this.#waitingBytes > MAX_WAITING_BYTES) {
      this.#lost += 1;
      return;
    }
    this.#add(line);
    this.#timer ??= setTimeout(() => void this.flush(), WRITE_MS);
  }

  #add(line: ServiceLogLine): void {
    const text = `${JSON.stringify(line)}\n`;
    this.#waiting.push(text);
    this.#waitingBytes += Buffer.byteLength(text);
  }

  /** Resolves when all lines so far are written. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lost > 0) {
      this.#add({
        at: Date.now(),
        severity: 'WARNING',
        message: `[platform] ${this.#lost} lines were lost: the disk was too slow for them.`,
        source: 'platform',
      });
      this.#lost = 0;
    }
    const text = this.#waiting.join('');
    this.#waiting = [];
    this.#waitingBytes = 0;
    // Lines are lost if the disk is full, which is reported elsewhere.
    if (text !== '') this.#written = this.#written.then(() => this.#append(text)).catch(() => {});
    return this.#written;
  }

  async #append(text: string): Promise<void> {
    const [current] = FILES;
    const path = join(this.#folder, current);
    if (this.#bytes === undefined) {
      await mkdir(this.#folder, { recursive: true });
      this.#bytes = await stat(path).then(
        ({ size }) => size,
        () => 0,
      );
    }
    if (this.#bytes > MAX_FILE_BYTES) {
      for (let index = FILES.length - 1; index > 0; index--) {
        await rename(join(this.#folder, FILES[index - 1]!), join(this.#folder, FILES[index]!)).catch(() => {});
      }
      this.#bytes = 0;
    }
    await appendFile(path, text);
    this.#bytes += Buffer.byteLength(text);
  }

  /** Returns the newest lines that match the query, oldest first. */
  async read({ limit, since = 0, severity = 'DEBUG' }: ServiceLogQuery): Promise<ServiceLogLine[]> {
    await this.flush();
    const least = LOG_SEVERITIES.indexOf(severity);
    const found: ServiceLogLine[] = [];
    for (const name of FILES) {
      for await (const text of linesBackwards(join(this.#folder, name))) {
        const line = parsed(text);
        if (!line) continue;
        if (line.at < since) return found.reverse();
        if (LOG_SEVERITIES.indexOf(line.severity) >= least) found.push(line);
        if (found.length === limit) return found.reverse();
      }
    }
    return found.reverse();
  }

  async remove(): Promise<void> {
    await this.flush();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Returns undefined for a line that a crash truncated. */
function parsed(text: string): ServiceLogLine | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function* linesBackwards(path: string): AsyncGenerator<string> {
  const file = await open(path).catch(() => undefined);
  if (!file) return;
  try {
    let rest: Buffer = Buffer.alloc(0);
    for (let end = (await file.stat()).size; end > 0; ) {
      const start = Math.max(0, end - READ_BYTES);
      const { buffer } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
      rest = Buffer.concat([buffer, rest]);
      end = start;
      for (let at = rest.lastIndexOf(NEWLINE, -1); at >= 0; at = at > 0 ? rest.lastIndexOf(NEWLINE, at - 1) : -1) {
        if (at + 1 < rest.length) yield rest.toString('utf8', at + 1);
        rest = rest.subarray(0, at);
      }
    }
    if (rest.length > 0) yield rest.toString();
  } finally {
    await file.close();
  }
}
