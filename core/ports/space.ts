import { PlatformError } from '#core/base/errors.ts';

/** Room for what tenants store. */
export interface Space {
  /**
   * Why nothing more may be stored at the moment, and what the operator does about it, as whole sentences; `undefined` while
   * there is room. Cheap enough for every request.
   */
  problem(): Promise<string | undefined>;
}

/** Of a host whose storage does not fill. */
export const endlessSpace: Space = {
  async problem() {
    return undefined;
  },
};

const WAIT_SECONDS = 60;

/** Throws RATE_LIMITED while nothing more may be stored (`docs/interface/limits.md#disk`). */
export async function checkSpace({ space }: { readonly space: Space }): Promise<void> {
  const problem = await space.problem();
  if (problem === undefined) return;
  throw new PlatformError('RATE_LIMITED', problem, {
    hint: 'Requests that read or delete still work.',
    suggested_wait_time: WAIT_SECONDS,
  });
}
