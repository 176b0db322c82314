import { PlatformError } from '#core/base/errors.ts';

/**
 * Error of a run that lost its sandbox while it was opening or in use (`docs/interface/sandbox.md#interruptions`): the
 * host
 * reclaimed it, or the program killed all of its processes.
 */
export const interruptedError = (): PlatformError =>
  new PlatformError('INTERNAL_ERROR', 'The sandbox went away while the run was at work.', {
    cause: 'interrupted',
    hint: 'Call again. Runs of a program whose manifest has "retry_on_interruption": true begin again by themselves, once.',
  });

export const isInterruption = (error: PlatformError | undefined): boolean => error?.extra.cause === 'interrupted';
