import { useSyncExternalStore } from 'react';
import { useWho, useWorkspace } from './session.ts';

/** Lists that were read or changed since the page was loaded, by their keys. */
const lists = new Map<string, readonly unknown[]>();
const listeners = new Set<() => void>();
const tell = () => {
  for (const listener of listeners) listener();
};
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

// Another tab changed the storage.
addEventListener('storage', ({ key }) => {
  if (key === null) lists.clear();
  else lists.delete(key);
  tell();
});

/**
 * Returns a list that this browser stores for the user and the workspace, and a function that replaces it. All parts
 * of the page share the list. `isEntry` excludes entries of another shape.
 */
export function useBrowserList<Entry>(
  name: string,
  isEntry: (value: unknown) => value is Entry,
): readonly [list: readonly Entry[], change: (next: readonly Entry[]) => void] {
  const { user } = useWho();
  const { id } = useWorkspace();
  const key = `platform.${name}.${user.id}.${id}`;
  const list = useSyncExternalStore(subscribe, () => {
    const known = lists.get(key) ?? read(key, isEntry);
    lists.set(key, known);
    return known;
  });
  const change = (next: readonly Entry[]) => {
    lists.set(key, next);
    try {
      localStorage.setItem(key, JSON.stringify(next));
    } catch {
      // A browser that refuses to store data forgets the list with the page.
    }
    tell();
  };
  return [list as readonly Entry[], change];
}

export const isText = (value: unknown): value is string => typeof value === 'string';

function read<Entry>(key: string, isEntry: (value: unknown) => value is Entry): readonly Entry[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(list) ? list.filter(isEntry) : [];
  } catch {
    return [];
  }
}
