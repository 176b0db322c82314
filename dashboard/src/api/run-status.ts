/** Whether a run with this status has not ended. */
export const isUnderWay = (status: string | undefined): boolean =>
  status === 'running' || status === 'queued' || status === 'waiting';

/** Whether a run with this status failed: by itself, or at its time limit. A cancelled run did not. */
export const isFailure = (status: string): boolean => status === 'failed' || status === 'timeout';
