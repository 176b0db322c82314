/** Reads a list from the browser's storage, without entries of another shape. */
export function readList<Entry>(key: string, isEntry: (value: unknown) => value is Entry): readonly Entry[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(list) ? list.filter(isEntry) : [];
  } catch {
    return [];
  }
}

/** Stores a list. A browser that refuses to store data forgets it with the page. */
export function writeList(key: string, list: readonly unknown[]): void {
  try {
    localStorage.setItem(key, JSON.stringify(list));
  } catch {
    // The choice still applies to this page.
  }
}
