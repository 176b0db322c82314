import { PlatformError } from '#core/base/errors.ts';

/** Storage space for tenant data. */
export interface Space {
  /**
   * Returns why no more data may be stored at present and what the operator should do, as whole sentences; `undefined`
   * if there is space. Cheap enough for every request.
   */
  problem(): Promise<string | undefined>;
}

/** {@link Space} of a host whose storage cannot run out. */
export const endlessSpace: Space = {
  async problem() {
    return undefined;
  },
};

const WAIT_SECONDS = 60;

/** Throws RATE_LIMITED while no more data may be stored (`docs/interface/limits.md#disk`). */
export async function checkSpace({ space }: { readonly space: Space }): Promise<void> {
  const problem = await space.problem();
  if (problem === undefined) return;
  throw new PlatformError('RATE_LIMITED', problem, {
    hint: 'Requests that read or delete still work.',
    suggested_wait_time: WAIT_SECONDS,
  });
}
