import { isText, useBrowserList } from './browser-list.ts';

/** Names of the user's favorite agents of the workspace, which this browser stores, and a function that turns one. */
export function useFavorites(): readonly [names: readonly string[], turn: (name: string) => void] {
  const [names, change] = useBrowserList('favorite-agents', isText);
  const turn = (name: string) =>
    change(names.includes(name) ? names.filter((each) => each !== name) : [...names, name].toSorted());
  return [names, turn];
}
