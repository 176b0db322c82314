/** Why a process stops working on a run that has not ended. */
export type Departure =
  /** Another process has the run. */
  | 'lost'
  /** The process gives the run to another one. */
  | 'handover'
  /** Its try failed, and it waits for the next one. */
  | 'retry'
  /** It waits for a place in a queue. */
  | 'queue'
  /** Its program works by itself, and a process looks at it from time to time. */
  | 'look'
  /** It waits for people, time or events. */
  | 'wait';

/**
 * The run has not ended, but it does not continue in this process: nothing may be recorded about its end. Test the code.
 */
export class RunContinuesError extends Error {
  readonly code = 'RUN_CONTINUES';
  readonly departure: Departure;
  /** For `look` and `wait`: when another process takes it up at the latest, in epoch milliseconds. */
  readonly until?: number;

  constructor(runId: string, departure: Departure, until?: number) {
    super(`the run ${runId} continues in another process`);
    this.departure = departure;
    if (until !== undefined) this.until = until;
  }
}

export const isRunContinues = (error: unknown): error is RunContinuesError =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === 'RUN_CONTINUES';
