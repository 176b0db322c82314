import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { markFiles, restoreSnapshot, type SnapshotMark, type SnapshotProblem, takeSnapshot } from '../durable/files.ts';
import type { EngineResult, EngineRun, SessionWorkspace, Warning } from './engine.ts';
import { interruptedError, isInterruption } from './interruption.ts';

/** Time for each command after a run that failed or was cancelled. */
const AFTER_FAILURE_MS = 30_000;

/** The files of a session in the sandbox of one of its runs (`docs/interface/sessions.md#files`). */
export class WorkspaceFiles {
  readonly #workspace: SessionWorkspace;
  readonly #hasBundle: boolean;
  readonly #signal: AbortSignal;
  #isOpen = false;
  /** What the files were like when the run began. */
  mark: SnapshotMark | undefined;

  /** Creates the files of a run whose session has some. */
  constructor(run: EngineRun, signal: AbortSignal = run.signal) {
    this.#workspace = run.session!.workspace!;
    this.#hasBundle = run.agent.bundle !== undefined;
    this.#signal = signal;
  }

  /** Notes that the sandbox has the files already, as they were like then. */
  resume(mark: SnapshotMark | undefined): void {
    this.#isOpen = true;
    this.mark = mark;
  }

  /**
   * Writes the files into a sandbox that was just opened. Throws INTERNAL_ERROR if they are damaged or missing, or cannot be
   * written.
   */
  async restore(session: SandboxSession): Promise<void> {
    const signal = this.#signal;
    const kept = await this.#workspace.read();
    const done =
      kept !== undefined
        ? await restoreSnapshot(session, kept.content, {
            maxBytes: this.#workspace.maxBytes,
            signal,
            isOtherBundle: kept.isOtherBundle,
          })
        : this.#hasBundle
          ? await markFiles(session, { signal })
          : undefined;
    if (done !== undefined && !('mark' in done)) throw notRestored(done);
    this.resume(done?.mark);
  }

  /**
   * Returns what the result of the run gets: the files that have changed, or a warning that says why they cannot be kept.
   * After a timeout or an interruption the sandbox is gone, and the session keeps the files that it had.
   *
   * @param session Absent if the run has opened no sandbox.
   */
  async keep(
    session: SandboxSession | undefined,
    error?: PlatformError,
  ): Promise<Pick<EngineResult, 'files'> & { readonly warning?: Warning }> {
    if (session === undefined || !this.#isOpen || error?.code === 'TIMEOUT' || isInterruption(error)) return {};
    const taken = await takeSnapshot(session, {
      maxBytes: this.#workspace.maxBytes,
      since: this.mark,
      ...(error !== undefined && { timeoutMs: AFTER_FAILURE_MS }),
    }).catch((cause: unknown) => {
      // The sandbox may be gone.
      if (error !== undefined || !hasCode(cause, 'SANDBOX_LOST')) return { problem: String(cause), isLost: true };
      throw cause;
    });
    if ('unchanged' in taken) return {};
    if ('content' in taken) {
      return { files: taken.content, ...(taken.leftOut && { warning: warningOf(taken.leftOut) }) };
    }
    return {
      warning: warningOf(`The files of this run were not kept for the session's next message. ${taken.problem}`),
    };
  }
}

const warningOf = (message: string): Warning => ({ code: 'TRUNCATED', field: 'workspace', message });

const notRestored = ({ problem, isLost }: SnapshotProblem): PlatformError =>
  isLost ? interruptedError() : filesError(problem);

/** The error of a run whose session has files that cannot be used. */
export const filesError = (problem: string): PlatformError =>
  new PlatformError('INTERNAL_ERROR', `The files of this session cannot be restored. ${problem}`, {
    hint: 'Fork the session after an earlier message, or open another one: both begin without files.',
    is_retryable: false,
  });
