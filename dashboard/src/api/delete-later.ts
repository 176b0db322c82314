import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { isNotFound } from '../api-error.ts';
import { toast } from '../ui/toast.tsx';
import { type ArgumentsOf, call, type OperationName } from './client.ts';
import { keyOf } from './query.ts';
import { useWorkspace } from './session.ts';

/** Slightly longer than the undo message is shown. */
const WAIT_MS = 6_500;

/** Maps the id of each pending deletion to a function that performs it immediately. */
let waiting: ReadonlyMap<string, () => void> = new Map();
const listeners = new Set<() => void>();
const change = (next: ReadonlyMap<string, () => void>) => {
  waiting = next;
  for (const listener of listeners) listener();
};
const without = (id: string) => change(new Map([...waiting].filter(([each]) => each !== id)));
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

// Closing the page confirms pending deletions.
addEventListener('pagehide', () => {
  for (const send of waiting.values()) send();
});

/**
 * Deletes an item after a short delay: until then it is hidden, and a message offers to undo the deletion, which the
 * API cannot do. `isDeleted` tells whether an item is hidden; `stale` lists operations to refetch.
 */
export function useDeleteLater<Name extends OperationName>(name: Name, stale: readonly OperationName[]) {
  const workspaceId = useWorkspace().id;
  const client = useQueryClient();
  const hidden = useSyncExternalStore(subscribe, () => waiting);
  const remove = (id: string, args: ArgumentsOf<Name>, text: string) => {
    if (waiting.has(id)) return;
    let isSent = false;
    const send = async () => {
      if (isSent) return;
      isSent = true;
      try {
        await call(name, args, { workspaceId, keepalive: true });
      } catch (error) {
        if (!isNotFound(error)) toast({ tone: 'bad', error });
      }
      await Promise.all(stale.map((each) => client.invalidateQueries({ queryKey: keyOf(each) })));
      without(id);
    };
    const timer = setTimeout(() => void send(), WAIT_MS);
    change(new Map(waiting).set(id, () => void send()));
    const undo = () => {
      if (isSent) return;
      clearTimeout(timer);
      without(id);
    };
    toast({ tone: 'good', text, action: { label: 'Undo', run: undo } });
  };
  return { isDeleted: (id: string) => hidden.has(id), remove };
}
