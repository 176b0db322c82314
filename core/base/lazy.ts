/**
 * Loads a module on first use and keeps it: each `import` expression takes time, also for a module that is there. What
 * failed to load is tried again.
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
