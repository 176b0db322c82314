import type { Clock } from './clock.ts';

/** Calls `beat` every `ms` milliseconds, each time after the last has ended, until the returned function is called. */
export function heartbeat(clock: Clock, ms: number, beat: () => Promise<unknown>): () => void {
  let isOver = false;
  let cancel = (): void => {};
  const next = () => {
    if (!isOver) cancel = clock.after(ms, () => void beat().catch(ignore).then(next));
  };
  next();
  return () => {
    isOver = true;
    cancel();
  };
}

const ignore = (): void => {};
