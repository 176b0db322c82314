/**
 * Calls `work` for each item in order, with at most `limit` calls at a time. Starts no further calls once one has
 * failed or
 * `signal` is aborted. Rejects with the first failure.
 */
export async function mapWithConcurrency<T>(
  limit: number,
  items: readonly T[],
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  let hasFailed = false;
  const worker = async (): Promise<void> => {
    for (const item of waiting) {
      if (hasFailed || signal.aborted) return;
      try {
        await work(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
