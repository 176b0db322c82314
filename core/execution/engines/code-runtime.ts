import { PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import { entrypointCommand } from '#core/manifest/bundle/entrypoint.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ExecEvent, ExecOutcome, ExecRequest, SandboxSession } from '#core/ports/sandbox.ts';
import { LiveMask } from '#core/runs/masking/masking.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import { resultOfProgram } from './code-result.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { isInterruption } from './interruption.ts';
import { DurableProgram } from './program/durable-program.ts';
import { scriptToExplain } from './program/script.ts';
import type { WarmRun } from './program/warm-run.ts';
import { openingError, openRunSandbox } from './run-sandbox.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

/** Limit for one run's live output. The run's log has its own limit. */
const MAX_LIVE_CHARACTERS = 1024 * 1024;

/**
 * Runs an agent's program once, in a fresh sandbox: one JSON document on stdin, one JSON value on stdout; the exit code
 * decides about success (`docs/interface/sandbox.md#program-protocol`). A warm program gets the document as one of many.
 The version must be runnable. Throws TIMEOUT,
 * SANDBOX_ERROR without a sandbox, {@link RunContinuesError} if the program of a durable run works on by itself, and the
 * reason of `run.signal` once it is aborted; failures of the program are in the result.
 */
export async function runCode(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const { agent, input, durable } = run;
  const workspace = run.session?.workspace && new (await import('./workspace-files.ts')).WorkspaceFiles(run);
  const program = durable && new DurableProgram(deps, run, durable, workspace);
  const warm = await warmProgramOf(run);
  const session = program === undefined ? await openOnce(deps, run, { workspace, warm }) : await program.open();
  let isLeft = false;
  let wasInterrupted = false;
  try {
    const timeoutMs = run.deadline - deps.clock.now();
    if (timeoutMs <= 0 && program?.hasBegun !== true)
      throw new PlatformError('TIMEOUT', 'The deadline passed before the agent could be started.');
    const command = entrypointCommand(agent.definition, agent.bundle!.entrypoint);
    const given = warm
      ? warm.inputOf(deps.ids, input.document)
      : { stdin: Buffer.from(JSON.stringify(input.document)) };
    const request: ExecRequest = { command, ...given, timeoutMs, signal: run.signal };
    const events = program === undefined ? session.exec(request) : program.exec(session, request);
    const outcome = await gatherLive(events, run, program?.shown).catch((error) => {
      throw openingError(error, agent);
    });
    run.signal.throwIfAborted();
    const script = await scriptToExplain(session, command, outcome);
    const own = resultOfProgram(deps.config, run, { command, outcome, script });
    if (outcome.exit.reason === 'exited') await program?.leaveIfSuspended(own);
    const result = program === undefined ? own : program.withPast(own);
    wasInterrupted = isInterruption(result.error);
    const { files, warning } = (await workspace?.keep(session, result.error)) ?? {};
    if (!wasInterrupted)
      run.emit({ type: 'done', exit_code: outcome.exit.exitCode, execution_time_ms: result.executionMs });
    if (files === undefined && warning === undefined) return result;
    return { ...result, warnings: warning ? [...result.warnings, warning] : result.warnings, ...(files && { files }) };
  } catch (error) {
    isLeft = isRunContinues(error) && error.departure !== 'wait' && session.ref !== undefined;
    throw error;
  } finally {
    // The answer is sent without waiting for the sandbox to close.
    const closed = isLeft
      ? Promise.resolve()
      : session.close().catch((error: unknown) => {
          deps.log.error('a sandbox could not be closed', { run_id: run.runId, error: String(error) });
        });
    void deps.background(closed);
    // Closed before a retry, since the program may still be running in the lost sandbox.
    if (wasInterrupted) await closed;
  }
}

/** Loaded lazily: few programs stay, and smaller functions start faster. */
const warmRuns = lazy(() => import('./program/warm-run.ts'));

/**
 * Returns how the program of a run is shared; `undefined` if the run has a sandbox to itself: its manifest does not want
 * otherwise, or it has files, which other runs must not see.
 */
async function warmProgramOf(run: EngineRun): Promise<WarmRun | undefined> {
  const { reuse } = run.agent.definition;
  if (reuse === undefined || run.files.length + run.input.uploads.length > 0) return undefined;
  const { warmRunOf } = await warmRuns();
  return warmRunOf(run, reuse, run.env);
}

/** Opens the sandbox of a program that has no past. With the files of a session it runs more than one command. */
function openOnce(
  deps: Deps,
  run: EngineRun,
  { workspace, warm }: { workspace: WorkspaceFiles | undefined; warm: WarmRun | undefined },
): Promise<SandboxSession> {
  if (workspace) return openRunSandbox(deps, run, run.env, { prepare: (session) => workspace.restore(session) });
  return openRunSandbox(deps, run, warm?.env ?? run.env, { isOneCommand: true, reuse: warm?.reuse });
}

/**
 * Follows a command to its end, emits its output live, and returns the entire output.
 *
 * @param shown Number of characters that were emitted, kept up to date. What other processes emitted is not emitted again,
 * but passes the mask, which must see each secret whole.
 */
async function gatherLive(
  events: AsyncIterable<ExecEvent>,
  run: EngineRun,
  shown: { stdout: number; stderr: number } = { stdout: 0, stderr: 0 },
): Promise<ExecOutcome> {
  const known = { ...shown };
  const printed = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  const live = { stdout: new LiveMask(run.mask), stderr: new LiveMask(run.mask) };
  let room = MAX_LIVE_CHARACTERS - known.stdout - known.stderr;
  const show = (type: 'stdout' | 'stderr', masked: string): void => {
    const text = masked.slice(known[type]);
    known[type] -= Math.min(known[type], masked.length);
    if (text === '' || room <= 0) return;
    shown[type] += text.length;
    room -= text.length;
    run.emit(room > 0 ? { type, text } : { type: 'output_truncated' });
  };
  for await (const event of events) {
    if (event.type !== 'exit') {
      printed[event.type].push(event.data);
      show(event.type, live[event.type].push(event.data));
      continue;
    }
    for (const type of ['stdout', 'stderr'] as const) show(type, live[type].end());
    return { stdout: Buffer.concat(printed.stdout), stderr: Buffer.concat(printed.stderr), exit: event.exit };
  }
  throw new Error('a sandbox command ended without an exit event');
}
