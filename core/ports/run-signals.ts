/** Stops runs of this process immediately. Other processes read the mark in the run's record. */
export interface RunSignals {
  /** Creates the abort signal of a run that starts in this process. */
  open(runId: string): AbortController;
  /** Aborts the run with `reason`. A no-op if the run is not in this process. */
  abort(runId: string, reason: Error): void;
  /** Removes a run that has ended. */
  close(runId: string): void;
}

/** {@link RunSignals} of both hosts. */
export class ProcessRunSignals implements RunSignals {
  readonly #running = new Map<string, AbortController>();

  open(runId: string): AbortController {
    const controller = new AbortController();
    this.#running.set(runId, controller);
    return controller;
  }

  abort(runId: string, reason: Error): void {
    this.#running.get(runId)?.abort(reason);
  }

  close(runId: string): void {
    this.#running.delete(runId);
  }
}
