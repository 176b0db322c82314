import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { ArgumentsOf, OperationName } from '../api/client.ts';
import { keyOf } from '../api/query.ts';
import { useWorkspace } from '../api/session.ts';
import { type LiveEvent, type LiveState, type WatchName, watch } from './watch.ts';

/** A hidden tab closes its connection, because browsers allow only six per origin. */
const HIDDEN_MS = 30_000;

interface LiveOptions<Name extends WatchName> {
  readonly name: Name;
  readonly args: ArgumentsOf<Name>;
  readonly onEvent: (event: LiveEvent) => void;
  /** Called when events were lost and the data must be refetched. */
  readonly onGap?: () => void;
  readonly isPaused?: boolean;
  /** @default true */
  readonly isOn?: boolean;
}

/**
 * Follows events while the page is visible. Pausing closes the stream; it can resume at the same event for up to an
 * hour.
 */
export function useLive<Name extends WatchName>(options: LiveOptions<Name>): LiveState {
  const { name, args, isPaused = false, isOn = true } = options;
  const [state, setState] = useState<LiveState>('reconnecting');
  const latest = useRef(options);
  latest.current = options;
  const isVisible = useIsVisible();
  const runs = isOn && !isPaused && isVisible;
  const key = JSON.stringify(args);
  /** Position at which the stream was paused. */
  const resume = useRef<{ readonly key: string; readonly last?: string }>({ key });
  useEffect(() => {
    if (!runs) return;
    const end = new AbortController();
    if (resume.current.key !== key) resume.current = { key };
    const { last } = resume.current;
    const given = JSON.parse(key);
    const watched = {
      name,
      args: last === undefined ? given : { ...given, query: { ...given.query, after: last } },
      onEvent: (event: LiveEvent) => {
        resume.current = { key, last: event.id };
        latest.current.onEvent(event);
      },
      onState: (next: LiveState) => end.signal.aborted || setState(next),
      onGap: () => latest.current.onGap?.(),
    };
    void watch(watched, end.signal);
    return () => end.abort();
  }, [name, key, runs]);
  return isPaused || !isVisible ? 'paused' : state;
}

function useIsVisible(): boolean {
  const [isVisible, setVisible] = useState(true);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const change = () => {
      clearTimeout(timer);
      if (document.visibilityState === 'visible') setVisible(true);
      else timer = setTimeout(() => setVisible(false), HIDDEN_MS);
    };
    document.addEventListener('visibilitychange', change);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', change);
    };
  }, []);
  return isVisible;
}

export type EventKind = 'run' | 'schedule' | 'service' | 'message' | 'task' | 'agent';

/** Follows workspace events of the given types. */
export function useWorkspaceEvents(
  kinds: readonly EventKind[],
  onEvent: (event: LiveEvent) => void,
  choices: { readonly isPaused?: boolean; readonly onGap?: () => void } = {},
): LiveState {
  const args = { params: { workspace_id: useWorkspace().id }, query: { types: kinds.join(',') } };
  return useLive({ name: 'listWorkspaceEvents', args, onEvent, ...choices });
}

/** Longer than the server's polling interval, so that a burst of events causes one refetch. */
const REFRESH_MS = 1_000;

/**
 * Refetches the operations in `names` after events of these types, at most once a second. `names` may depend on the type
 * of an event, for pages whose parts follow different types.
 */
export function useLiveRefresh(
  kinds: readonly EventKind[],
  names: readonly OperationName[] | ((kind: string) => readonly OperationName[]),
  choices: { readonly isPaused?: boolean } = {},
): LiveState {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const stale = useRef(new Set<OperationName>());
  const refresh = (changed: readonly string[]) => {
    for (const kind of changed) {
      for (const name of typeof names === 'function' ? names(kind) : names) stale.current.add(name);
    }
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      for (const name of stale.current) void client.invalidateQueries({ queryKey: keyOf(name) });
      stale.current.clear();
    }, REFRESH_MS);
  };
  return useWorkspaceEvents(kinds, ({ type }) => refresh([type.split('.')[0]!]), {
    ...choices,
    onGap: () => refresh(kinds),
  });
}
