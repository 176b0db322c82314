/** Whether a run with this status failed: by itself, or at its time limit. A cancelled run did not. */
export const isFailure = (status: string): boolean => status === 'failed' || status === 'timeout';
