import { hasCode } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ExecEvent, ExecRequest, SandboxSession } from '#core/ports/sandbox.ts';
import { shortenLog } from '#core/runs/masking/masking.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { lastProgram, type ProgramStep, type Step } from '../../durable/journal.ts';
import type { DurableWork, EngineResult, EngineRun } from '../engine.ts';
import { interruptedError } from '../interruption.ts';
import { openRunSandbox } from '../run-sandbox.ts';
import type { WorkspaceFiles } from '../workspace-files.ts';
import { followDetached, startDetached } from './detached-program.ts';

/** Looks are up to a minute late. */
const LAST_LOOK_MS = 90_000;

/**
 * The program of a durable run. On hosts whose sandboxes any process can attach to, the program is detached, and the
 * process that has the run's lease reads its output. On other hosts it ends with the process that opened its sandbox.
 */
export class DurableProgram {
  readonly #deps: Pick<Deps, 'sandbox' | 'config' | 'clock' | 'log'>;
  readonly #run: EngineRun;
  readonly #durable: DurableWork;
  readonly #workspace: WorkspaceFiles | undefined;
  #step: ProgramStep | undefined;
  /** Characters of its output that were emitted, by this process and others. */
  readonly shown = { stdout: 0, stderr: 0 };

  /** @param workspace The files of its session, if it keeps any. */
  constructor(
    deps: Pick<Deps, 'sandbox' | 'config' | 'clock' | 'log'>,
    run: EngineRun,
    durable: DurableWork,
    workspace?: WorkspaceFiles,
  ) {
    this.#deps = deps;
    this.#run = run;
    this.#durable = durable;
    this.#workspace = workspace;
  }

  /** Whether another process began it. */
  get hasBegun(): boolean {
    return this.#step !== undefined;
  }

  /**
   * Opens its sandbox, or that in which another process began it. Throws the error of an interruption if that was lost with
   * its process.
   */
  async open(): Promise<SandboxSession> {
    const { sandbox } = this.#deps;
    const { past, begun } = this.#durable.journal;
    const steps: readonly Step[] = past;
    const step = lastProgram(steps);
    const isKnown = step !== undefined && step.number === begun;
    const workspace = this.#workspace;
    const prepare = workspace && ((session: SandboxSession) => workspace.restore(session));
    if (!isKnown) return openRunSandbox(this.#deps, this.#run, this.#run.env, { prepare });
    // Should it be lost, too, the next one is another program.
    this.#durable.journal.begun = step.number + 1;
    if (step.ref === undefined || sandbox.attach === undefined) throw interruptedError();
    this.#step = step;
    workspace?.resume(step.mark);
    const look = steps.findLast((each) => each.type === 'look');
    if (look?.type === 'look' && steps.indexOf(look) > steps.indexOf(step)) {
      Object.assign(this.shown, { stdout: look.stdout, stderr: look.stderr });
    }
    return sandbox.attach(step.ref);
  }

  /** Runs the program, or follows it from its first output on. */
  async *exec(session: SandboxSession, request: ExecRequest): AsyncGenerator<ExecEvent> {
    const { clock } = this.#deps;
    const { journal } = this.#durable;
    if (this.#step === undefined) {
      const hasSteps = this.#run.agent.definition.durable?.steps === true;
      const settled = hasSteps && (await import('./suspension.ts')).startSteps(this.#deps, this.#run, this.#durable);
      const before = settled === false ? {} : { stepsBefore: await settled };
      const { PLATFORM_SERVICE_KEY: serviceKey } = this.#run.env;
      const access =
        session.ref === undefined ? {} : { ref: session.ref, ...(serviceKey !== undefined && { serviceKey }) };
      const startedAt = clock.now();
      const mark = this.#workspace?.mark;
      const step: ProgramStep = {
        ...{ type: 'program', number: journal.begun, startedAt, ...access, ...before },
        ...(mark && { mark }),
      };
      // What begins a program twice would do its work twice.
      await journal.write(step);
      journal.begun = step.number + 1;
      this.#step = step;
      if (session.ref === undefined) return yield* session.exec(request);
      const isStarted = await startDetached(session, request).catch((error: unknown) => {
        if (hasCode(error, 'SANDBOX_FILE')) return false;
        throw error;
      });
      if (!isStarted) throw interruptedError();
    }
    yield* followDetached(session, clock, {
      startedAt: this.#step.startedAt,
      deadline: this.#run.deadline,
      signal: this.#run.signal,
      mayLeave: () => this.#leave(),
    });
  }

  /**
   * Lets the run wait if the program has ended for that: throws {@link RunContinuesError}.
   *
   * @param result How it ended.
   */
  async leaveIfSuspended({ stderr, executionMs }: EngineResult): Promise<void> {
    if (this.#run.agent.definition.durable?.steps !== true) return;
    // Loaded lazily: few programs do steps.
    const { leaveIfSuspended } = await import('./suspension.ts');
    await leaveIfSuspended(this.#run, this.#durable, {
      stepsBefore: this.#step?.stepsBefore ?? 0,
      onWait: () => this.#durable.journal.write({ type: 'suspended', stderr, executionMs }),
    });
  }

  /** Adds what the program printed and how long it worked before it waited. */
  withPast(result: EngineResult): EngineResult {
    const past = this.#durable.journal.past.filter((step) => step.type === 'suspended');
    if (past.length === 0) return result;
    const stderr = shortenLog([...past, result].map((each) => each.stderr).join(''));
    return { ...result, stderr, executionMs: past.reduce((sum, each) => sum + each.executionMs, result.executionMs) };
  }

  async #leave(): Promise<void> {
    const lookAt = this.#durable.nextLook();
    // A process is there when the time is over, because the sandbox ends soon after.
    if (lookAt === undefined || this.#run.deadline - lookAt < LAST_LOOK_MS) return;
    await this.#durable.journal.write({ type: 'look', ...this.shown });
    throw new RunContinuesError(this.#run.runId, 'look', lookAt);
  }
}
