import type { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Entry, hasEntry, hasPlace, type Queue, removeEntry } from '#core/runs/queues/queue.ts';
import { replacedCall } from './turn.ts';

/** Pause between two looks, doubled for each further one. */
const LOOK_MS = { first: 50, max: 1000 };

/**
 * Waits until an entry has got its place. Throws the error of `tooLong` after `entry.until`, and RUN_CANCELLED if a newer
 * call ended its waiting.
 */
export async function waitForPlace(
  deps: Pick<Deps, 'runs' | 'clock'>,
  queue: Queue,
  entry: Entry,
  tooLong: () => PlatformError,
): Promise<void> {
  let pause = LOOK_MS.first;
  for (;;) {
    // In this order: a place is granted in the write that removes the entry.
    const waits = await hasEntry(deps, queue, entry);
    if (await hasPlace(deps, queue, entry)) return;
    if (!waits) throw replacedCall();
    const left = entry.until - deps.clock.now();
    if (left <= 0) {
      if (await removeEntry(deps, queue, entry.sk)) throw tooLong();
      continue;
    }
    await deps.clock.sleep(Math.min(pause, left));
    pause = Math.min(2 * pause, LOOK_MS.max);
  }
}
