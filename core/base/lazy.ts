/**
 * Loads a module on first use and caches it: even the `import` of a loaded module takes time. A failed load is
 * retried on the next use.
 */
export function lazy<Module>(load: () => Promise<Module>): () => Promise<Module> {
  let loaded: Promise<Module> | undefined;
  return () => {
    loaded ??= load().catch((error) => {
      loaded = undefined;
      throw error;
    });
    return loaded;
  };
}
