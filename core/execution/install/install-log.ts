import type { Clock } from '#core/ports/clock.ts';
import { shortenLog } from '#core/runs/masking/masking.ts';
import { emptyBody, type RunBody } from '#core/runs/run.ts';
import type { RunStore } from '#core/runs/store.ts';
import { installerError } from './installer-error.ts';

/** Minimum interval between writes of a running installation's output. */
const PROGRESS_INTERVAL_MS = 1000;
/** Quoted output of an installation that was stopped. */
const LAST_LINES = 20;
const LAST_CHARACTERS = 2048;

/** Collects the output of an installation, and writes it to the run's record while it runs. */
export class InstallLog {
  readonly #clock: Clock;
  readonly #runs: RunStore;
  readonly #run: { readonly id: string; readonly startedAt: number };
  readonly #text = { stdout: '', stderr: '' };
  #savedAt = 0;
  /** Exit code of the last command. */
  exitCode: number | null = null;

  constructor(clock: Clock, runs: RunStore, run: { readonly id: string; readonly startedAt: number }) {
    this.#clock = clock;
    this.#runs = runs;
    this.#run = run;
  }

  async add(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> {
    this.#text[stream] += Buffer.from(data).toString();
    const now = this.#clock.now();
    if (now - this.#savedAt < PROGRESS_INTERVAL_MS) return;
    this.#savedAt = now;
    await this.#runs.saveProgress(this.#run.id, this.#run.startedAt, this.body());
  }

  /** Adds a line from the platform to stdout. */
  note(line: string): void {
    this.#text.stdout += `${line}\n`;
  }

  /** The last lines of the output, of stderr or, if it is empty, of stdout. */
  lastLines(): string {
    const text = (this.#text.stderr.trim() || this.#text.stdout.trim()).slice(-LAST_CHARACTERS);
    return text.split(/\r?\n/).slice(-LAST_LINES).join('\n');
  }

  /** Whether the output so far matches the pattern. */
  has(pattern: RegExp): boolean {
    return pattern.test(this.#text.stdout) || pattern.test(this.#text.stderr);
  }

  body(): RunBody {
    const { stdout, stderr } = this.#text;
    return { ...emptyBody(null), stdout: shortenLog(stdout), stderr: shortenLog(stderr) };
  }

  /** Returns the installer's reason, from stderr, where pip and npm write errors, or from stdout if stderr is empty. */
  problem(): string {
    return installerError(this.#text.stderr.trim() || this.#text.stdout);
  }
}
