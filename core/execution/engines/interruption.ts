import { PlatformError } from '#core/base/errors.ts';

/**
 * The sandbox of a run went away while the run was at work, or before (`docs/interface/sandbox.md#interruptions`): its host took
 * it away, or the program ended everything in it.
 */
export const interruptedError = (): PlatformError =>
  new PlatformError('INTERNAL_ERROR', 'The sandbox went away while the run was at work.', {
    cause: 'interrupted',
    hint: 'Call again. Runs of a program whose manifest has "retry_on_interruption": true begin again by themselves, once.',
  });

export const isInterruption = (error: PlatformError | undefined): boolean => error?.extra.cause === 'interrupted';
