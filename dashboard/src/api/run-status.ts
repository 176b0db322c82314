/** Whether a run with this status has not ended. */
export const isUnderWay = (status: string | undefined): boolean =>
  status === 'running' || status === 'queued' || status === 'waiting';

/** Whether a run with this status failed: by itself, or at its time limit. A cancelled run did not. */
export const isFailure = (status: string): boolean => status === 'failed' || status === 'timeout';

/** Whether the contents of a run's trace are in its events only: they are stored when it ends. */
export const isInEvents = (status: string): boolean => status === 'running' || status === 'waiting';
