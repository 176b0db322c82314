import { hasCode, PlatformError } from '#core/base/errors.ts';

/** Turns the error of a full vault into DOCUMENT_TOO_LARGE, and throws others as they are. */
export function refuseWhenFull(error: unknown): never {
  if (!hasCode(error, 'VAULT_FULL')) throw error;
  throw new PlatformError(
    'DOCUMENT_TOO_LARGE',
    'The secrets of a workspace may have at most 64 KB in total: delete some first.',
  );
}
