/**
 * Does `work` for each item, in their order and for at most `limit` at once. Begins no more of it once one has failed or
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
