/**
 * Starts work in order of arrival, at most `maxPerTick` in each turn of the event loop. Otherwise all work that arrives
 * in one turn would go through its steps together: the first would end hardly earlier than the last, and all of it
 * would stay in memory until then.
 *
 * @returns Function that starts `work` now or in a later turn. `work` must not throw.
 */
export function createTickLimiter(maxPerTick: number): (work: () => void) => void {
  const waiting: (() => void)[] = [];
  let begun = 0;
  const nextTurn = (): void => {
    const now = waiting.splice(0, maxPerTick);
    begun = now.length;
    if (begun > 0) setImmediate(nextTurn);
    for (const work of now) work();
  };
  return (work) => {
    if (begun === maxPerTick || waiting.length > 0) {
      waiting.push(work);
      return;
    }
    if (begun === 0) setImmediate(nextTurn);
    begun++;
    work();
  };
}
