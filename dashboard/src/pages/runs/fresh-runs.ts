import { useEffect, useRef, useState } from 'react';
import type { LiveEvent } from '../../live/watch.ts';

/** Maximum number of new runs remembered until the user shows them. */
export const MAX_NEW_RUNS = 1_000;
/** Window in which a burst of events is applied as one update. */
const BATCH_MS = 250;

type RunEvent = LiveEvent['data'];

/**
 * Applies run events: updates listed runs in place and collects new runs until the user shows them.
 *
 * @param onEnded receives the final states of listed runs by id
 */
export function useFreshRuns(
  isListed: (id: string) => boolean,
  onEnded: (ends: ReadonlyMap<string, RunEvent>) => void,
) {
  const [fresh, setFresh] = useState<ReadonlyMap<string, RunEvent>>(new Map());
  const pending = useRef(new Map<string, RunEvent>());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef({ isListed, onEnded });
  latest.current = { isListed, onEnded };
  useEffect(() => () => clearTimeout(timer.current), []);
  const flush = () => {
    timer.current = undefined;
    const all = [...pending.current];
    pending.current = new Map();
    const ended = all.filter(([id, { status }]) => status !== 'running' && latest.current.isListed(id));
    if (ended.length > 0) latest.current.onEnded(new Map(ended));
    const others = all.filter(([id]) => !latest.current.isListed(id));
    if (others.length > 0) setFresh((old) => new Map([...old, ...others].slice(-MAX_NEW_RUNS)));
  };
  const onEvent = ({ type, data }: LiveEvent) => {
    pending.current.set(String(data.run_id), { ...data, status: type === 'run.started' ? 'running' : data.status });
    if (pending.current.size > MAX_NEW_RUNS) pending.current.delete(pending.current.keys().next().value!);
    timer.current ??= setTimeout(flush, BATCH_MS);
  };
  return { fresh, onEvent, clear: () => setFresh(new Map()) };
}
