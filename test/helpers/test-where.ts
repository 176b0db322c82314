import { describe, test } from 'vitest';

/**
 * Returns `test` only if the test applies here. A skipped test, in contrast, lacks something of its machine; CI skips
 * none.
 */
export const testWhere = (isMeant: boolean): typeof test => (isMeant ? test : (nothing as unknown as typeof test));

/** Returns `describe` under the same condition. */
export const describeWhere = (isMeant: boolean): typeof describe =>
  isMeant ? describe : (nothing as unknown as typeof describe);

const nothing = Object.assign((): void => {}, { each: () => nothing });
