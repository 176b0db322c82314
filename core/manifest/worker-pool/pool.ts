import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, PlatformError } from '#core/base/errors.ts';
import { threadEnvironment } from '#core/base/thread-environment.ts';
import type { ThreadAnswer, ThreadRequest } from './worker.ts';

/** One thread is always reserved for values of calls, see {@link Threads.run}. */
const MIN_THREADS = 2;
const MAX_THREADS = 4;
/** Maximum queued checks of one workspace. More would only wait longer. */
const MAX_WAITING = 100;
const HEAP_MB = 256;
/**
 * Timer ticks after which an idle thread ends, because it takes tens of megabytes. Ticks are counted instead of time: a
 * process that was frozen between two requests, as on AWS, ticks once when it resumes.
 */
const IDLE_LOOKS = 6;
const LOOK_MS = 5_000;

export interface Work extends ThreadRequest {
  /** Owner of the work: a group has at most one thread at a time. */
  readonly group: string;
  /** Milliseconds after which the thread is terminated. */
  readonly limitMs: number;
  /** Called when the task leaves the queue; may refuse it by throwing. */
  readonly onTurn: () => void;
  /** Called when the task has ended, with its CPU time in milliseconds. */
  readonly onEnd: (ms: number) => void;
}

interface Job extends Work {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A thread was terminated because its task took too much time or memory. Test its `code`. */
export class EndedError extends Error {
  readonly code = 'CHECK_ENDED';
}

/**
 * Threads that can be terminated at any time, for work whose cost untrusted users determine. They start on demand, and
 * stop when idle. Scheduling is fair between groups: each has at most one thread, and the group that was served last
 * goes to the end of the queue.
 */
export class Threads {
  readonly #size = Math.min(MAX_THREADS, Math.max(MIN_THREADS, availableParallelism()));
  /** The most recently used ones are last. */
  readonly #idle: { readonly worker: Worker; looks: number }[] = [];
  #looking: NodeJS.Timeout | undefined;
  readonly #waiting = new Map<string, Job[]>();
  /** Group -> its limit in milliseconds. */
  readonly #busy = new Map<string, number>();

  /**
   * Runs a task and returns its result. Long tasks (over a second) never occupy the last thread, so that checks of
   * values do not wait for manifests and archives. Throws RATE_LIMITED if too many tasks of the group are queued,
   * CHECK_ENDED, and errors of the task and `onTurn`.
   */
  run(work: Work): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const jobs = this.#waiting.get(work.group) ?? [];
      if (jobs.length >= MAX_WAITING) {
        const message = `${MAX_WAITING} checks of this workspace are already queued: its schemas or manifests take too long.`;
        reject(new PlatformError('RATE_LIMITED', message, { suggested_wait_time: 1 }));
        return;
      }
      jobs.push({ ...work, resolve, reject });
      this.#waiting.set(work.group, jobs);
      this.#next();
    });
  }

  #next(): void {
    for (const [group, jobs] of this.#waiting) {
      if (this.#busy.size >= this.#size) return;
      const job = jobs[0]!;
      const long = [...this.#busy.values()].filter((limit) => limit > SHORT_MS).length;
      if (this.#busy.has(group) || (job.limitMs > SHORT_MS && long >= this.#size - 1)) continue;
      jobs.shift();
      // Reinserted at the end, after all other groups.
      this.#waiting.delete(group);
      if (jobs.length > 0) this.#waiting.set(group, jobs);
      this.#busy.set(group, job.limitMs);
      void this.#do(job)
        .then(job.resolve, job.reject)
        .finally(() => {
          this.#busy.delete(group);
          this.#next();
        });
    }
  }

  async #do(job: Job): Promise<unknown> {
    job.onTurn();
    const worker = this.#idle.pop()?.worker ?? (await startWorker());
    const outcome = await outcomeOf(worker, job);
    job.onEnd(outcome.ms);
    if ('ended' in outcome) throw new EndedError(outcome.ended);
    this.#idle.push({ worker, looks: 0 });
    this.#looking ??= setInterval(() => this.#look(), LOOK_MS).unref();
    if ('result' in outcome) return outcome.result;
    if ('refusal' in outcome) {
      const { code, message, extra } = outcome.refusal;
      throw new PlatformError(code as ErrorCode, message, extra);
    }
    throw new Error(`a check failed in its thread: ${outcome.failure}`);
  }

  #look(): void {
    for (const idle of this.#idle) idle.looks += 1;
    while ((this.#idle[0]?.looks ?? 0) >= IDLE_LOOKS) void this.#idle.shift()!.worker.terminate();
    if (this.#idle.length > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }
}

/** Tasks with at most this limit are short. */
const SHORT_MS = 2000;

async function startWorker(): Promise<Worker> {
  const { THREAD_NAME, THREAD_URL } = await import('./worker.ts');
  const worker = new Worker(new URL(THREAD_URL), {
    workerData: THREAD_NAME,
    name: THREAD_NAME,
    // Excludes flags of tests and inspectors.
    env: threadEnvironment(),
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  worker.unref();
  return worker;
}

type Outcome = Exclude<ThreadAnswer, 'begun'> | { readonly ended: string; readonly ms: number };

/** Waits for the result. Terminates the worker if the task exceeds its limit; the task may also crash it. */
function outcomeOf(worker: Worker, { task, args, limitMs }: Job): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const end = (outcome: Outcome) => {
      clearTimeout(timer);
      forget(worker);
      worker.unref();
      resolve(outcome);
    };
    worker.on('message', (answer: ThreadAnswer) => {
      if (answer !== 'begun') {
        end(answer);
        return;
      }
      timer = setTimeout(() => {
        end({ ended: `took more than ${limitMs / 1000} s`, ms: limitMs });
        // Ignores errors of the termination itself.
        worker.on('error', () => {});
        void worker.terminate();
      }, limitMs);
    });
    worker.on('error', (error) => end({ ended: `failed (${error.message})`, ms: limitMs }));
    worker.on('exit', () => end({ ended: 'ended', ms: limitMs }));
    worker.ref();
    try {
      worker.postMessage({ task, args } satisfies ThreadRequest);
    } catch (error) {
      // Arguments that cannot be cloned, e.g. for their depth, never reached the worker.
      forget(worker);
      void worker.terminate();
      reject(error);
    }
  });
}

/** Removes only our listeners, not those of Node. */
function forget(worker: Worker): void {
  for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event);
}
