/**
 * Begins work in the order in which it comes, at most `most` of it in each turn of the event loop. All that arrives in one turn
 * would otherwise go through its steps together: the first would end hardly earlier than the last, and all of it would stay
 * in memory until then.
 *
 * @returns Begins `work` now or in a later turn; `work` never throws.
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
