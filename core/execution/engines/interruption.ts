import { PlatformError } from '#core/base/errors.ts';

/**
 * Error of a run that lost its sandbox while it was opening or in use (`docs/interface/sandbox.md#interruptions`): the
 * host
 * reclaimed it, or the program killed all of its processes.
 */
export const interruptedError = (): PlatformError =>
  new PlatformError('INTERNAL_ERROR', 'The sandbox was lost while the run was in progress.', {
    cause: 'interrupted',
    hint: 'Call again. Runs of a program whose manifest has "retry_on_interruption": true are retried automatically, once.',
  });

export const isInterruption = (error: PlatformError | undefined): boolean => error?.extra.cause === 'interrupted';
