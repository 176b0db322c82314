import { describe, test } from 'vitest';

/** A test that is there only where it has something to say. A skipped one lacks something of its machine, and CI has none. */
export const testWhere = (isMeant: boolean): typeof test => (isMeant ? test : (nothing as unknown as typeof test));

/** The same for several. */
export const describeWhere = (isMeant: boolean): typeof describe =>
  isMeant ? describe : (nothing as unknown as typeof describe);

const nothing = Object.assign((): void => {}, { each: () => nothing });
