import { LOG_SEVERITIES, type LogSeverity, type ServiceLogLine } from '#core/ports/service-host.ts';
import { LiveMask, type SecretMask } from '#core/runs/masking/masking.ts';

/** Longer lines are split (`docs/interface/service-instances.md#logs`). */
const MAX_LINE_BYTES = 16 * 1024;

/**
 * Severity words at the start of a line, and names and numbers of levels in JSON logs (Pino's are multiples of ten).
 */
const WORDS: { readonly [word: string]: LogSeverity } = {
  TRACE: 'DEBUG',
  DEBUG: 'DEBUG',
  INFO: 'INFO',
  NOTICE: 'INFO',
  WARN: 'WARNING',
  WARNING: 'WARNING',
  ERR: 'ERROR',
  ERROR: 'ERROR',
  CRITICAL: 'CRITICAL',
  FATAL: 'CRITICAL',
  PANIC: 'CRITICAL',
};
const LEADING_WORD = /^[[<(]?([A-Za-z]{3,8})\b/;

/** Returns the severity of a line: its own, if it starts with one or is a JSON object with `level` or `severity`. */
export function severityOf(line: string, otherwise: LogSeverity): LogSeverity {
  if (line.startsWith('{')) return severityOfJson(line) ?? otherwise;
  return WORDS[LEADING_WORD.exec(line)?.[1]?.toUpperCase() ?? ''] ?? otherwise;
}

function severityOfJson(line: string): LogSeverity | undefined {
  let value: { level?: unknown; severity?: unknown };
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  const level = value.level ?? value.severity;
  if (typeof level === 'string') return WORDS[level.toUpperCase()];
  if (typeof level !== 'number') return undefined;
  return LOG_SEVERITIES[Math.min(4, Math.max(0, Math.floor(level / 10) - 2))];
}

/** One output stream of an app, as lines with secrets masked. */
export class AppLog {
  readonly #mask: LiveMask;
  readonly #otherwise: LogSeverity;
  readonly #write: (line: ServiceLogLine) => void;
  readonly #now: () => number;
  #rest = '';
  /** Whether the beginning of the current line was written already because the line is too long. */
  #isCut = false;

  constructor(
    mask: SecretMask,
    { otherwise, now, write }: { otherwise: LogSeverity; now: () => number; write: (line: ServiceLogLine) => void },
  ) {
    this.#mask = new LiveMask(mask);
    this.#otherwise = otherwise;
    this.#now = now;
    this.#write = write;
  }

  push(data: Uint8Array): void {
    this.#take(this.#mask.push(data));
  }

  /** Writes the rest as a line when the app has ended. */
  end(): void {
    this.#take(`${this.#mask.end()}\n`);
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) {
      if (this.#isCut) this.#isCut = false;
      else this.#line(line);
    }
    if (this.#rest.length <= MAX_LINE_BYTES) return;
    if (!this.#isCut) this.#line(this.#rest);
    this.#isCut = true;
    this.#rest = '';
  }

  #line(text: string): void {
    const line = text.trimEnd();
    if (line === '') return;
    const bytes = Buffer.from(line);
    // The decoder holds back a character that is split by the cut.
    const message =
      bytes.byteLength <= MAX_LINE_BYTES
        ? line
        : `${new TextDecoder().decode(bytes.subarray(0, MAX_LINE_BYTES), { stream: true })} [... cut]`;
    this.#write({ at: this.#now(), severity: severityOf(line, this.#otherwise), message, source: 'app' });
  }
}
