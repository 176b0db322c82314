import { parentPort, workerData } from 'node:worker_threads';
import { isPlatformError } from '#core/base/errors.ts';
import type { Tasks } from './tasks.ts';

/** URL of the worker's program. Only this file knows it, because a bundle gives the file another name. */
export const THREAD_URL: string = import.meta.url;
/** Distinguishes our worker threads from other threads that load this file. */
export const THREAD_NAME = 'checks';

export type TaskName = keyof Tasks;

export interface ThreadRequest {
  readonly task: TaskName;
  readonly args: readonly unknown[];
}

/** `begun` once everything is loaded, then one of the others. `ms` is CPU time. */
export type ThreadAnswer =
  | 'begun'
  | { readonly result: unknown; readonly ms: number }
  | {
      readonly refusal: { readonly code: string; readonly message: string; readonly extra: object };
      readonly ms: number;
    }
  | { readonly failure: string; readonly ms: number };

async function answer({ task, args }: ThreadRequest, send: (answer: ThreadAnswer) => void): Promise<void> {
  const { tasks } = await import('./tasks.ts');
  const load = tasks[task] as (...args: readonly unknown[]) => Promise<(...args: readonly unknown[]) => unknown>;
  const run = await load(...args);
  send('begun');
  const before = processorMs();
  try {
    const result = await run(...args);
    send({ result, ms: processorMs() - before });
  } catch (error) {
    const ms = processorMs() - before;
    if (isPlatformError(error)) {
      const { code, message, extra } = error;
      send({ refusal: { code, message, extra }, ms });
    } else {
      send({ failure: error instanceof Error ? (error.stack ?? error.message) : String(error), ms });
    }
  }
}

function processorMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

if (workerData === THREAD_NAME) {
  parentPort!.on('message', (request: ThreadRequest) => answer(request, (message) => parentPort!.postMessage(message)));
}
