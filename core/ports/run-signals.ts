/** How a process stops a run of its own at once. Other processes find the mark in the run's record. */
export interface RunSignals {
  /** The signal of a run that begins here. */
  open(runId: string): AbortController;
  /** Aborts the run with `reason`; does nothing where it does not run in this process. */
  abort(runId: string, reason: Error): void;
  /** Forgets a run that has ended. */
  close(runId: string): void;
}

/** The same on both hosts. */
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
