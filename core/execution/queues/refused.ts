import { PlatformError } from '#core/base/errors.ts';

/** Error of a call that a rule refuses: it is not tried again, as calls are that find no room in the workspace. */
export class RefusedByRuleError extends PlatformError {
  readonly isFinal = true;
}

export const isRefusedByRule = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && (error as Partial<RefusedByRuleError>).isFinal === true;
