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
const MAX_LINE_CHARACTERS = 500;

/** Collects the output of an installation, and writes it to the run's record while it runs. */
export class InstallLog {
  readonly #clock: Clock;
  readonly #runs: RunStore;
  readonly #run: { readonly id: string; readonly startedAt: number };
  readonly #text = { stdout: '', stderr: '' };
  #stepAt = { stdout: 0, stderr: 0 };
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

  /** Begins a step: {@link lastLines} and {@link failureOfBuild} are about its output. */
  startStep(): void {
    this.#stepAt = { stdout: this.#text.stdout.length, stderr: this.#text.stderr.length };
  }

  /** The last lines of the step's stdout, then those of its stderr. */
  lastLines(): string {
    const lastOf = (stream: 'stdout' | 'stderr') =>
      this.#text[stream].slice(this.#stepAt[stream]).slice(-LAST_CHARACTERS).trim().split(/\r?\n/).slice(-LAST_LINES);
    return [...lastOf('stdout'), ...lastOf('stderr')].filter((line) => line !== '').join('\n');
  }

  /** The first line of the last ones that names an error, else the last one. */
  failureOfBuild(): string {
    const lines = this.lastLines()
      .split('\n')
      .filter((line) => !/^npm /.test(line));
    return (lines.find((line) => /\berror\b/i.test(line)) ?? lines.at(-1) ?? '').trim().slice(0, MAX_LINE_CHARACTERS);
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
