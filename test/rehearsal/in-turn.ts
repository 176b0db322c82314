/**
 * Returns a function that runs `work` once at a time. Callers that arrive during a run share the next run, so that it
 * sees everything they did before their call.
 */
export function inTurn(work: () => Promise<void>): () => Promise<void> {
  let last = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= last
      .catch(() => {})
      .then(async () => {
        next = undefined;
        await work();
      });
    last = next;
    return next;
  };
}
