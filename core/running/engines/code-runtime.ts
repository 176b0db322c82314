import { entrypointCommand } from '#core/agents/bundle/entrypoint.ts';
import { type ErrorExtra, PlatformError } from '#core/base/errors.ts';
import { parseJsonValue } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ExecOutcome, ExecRequest, SandboxSession } from '#core/ports/sandbox.ts';
import { LiveMask, shortenLog } from '#core/runs/masking.ts';
import type { EngineResult, EngineRun, Warning } from './engine.ts';
import { openRunSandbox } from './run-sandbox.ts';

/** `contract.md` 1.1: stderr in error messages is cut to 500 characters. */
const STDERR_TAIL_CHARACTERS = 500;
/** Of one run's live output; all of it is in the run's log as far as logs go. */
const MAX_LIVE_CHARACTERS = 1024 * 1024;

/**
 * Runs an agent's program once, in a fresh sandbox: one JSON document on stdin, one JSON value on stdout, the exit code
 * decides (`contract.md` 11.2). The version must be runnable.
 */
export async function runCode(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const { agent, input } = run;
  const session = await openRunSandbox(deps, run, run.env);
  try {
    const timeoutMs = run.deadline - deps.clock.now();
    if (timeoutMs <= 0) throw new PlatformError('TIMEOUT', 'The deadline passed before the agent could be started.');
    const outcome = await execLive(session, run, {
      command: entrypointCommand(agent.definition, agent.bundle!.entrypoint),
      stdin: Buffer.from(JSON.stringify(input.document)),
      timeoutMs,
      signal: run.signal,
    });
    run.signal.throwIfAborted();
    const result = interpret(deps, run, outcome);
    run.emit({ type: 'done', exit_code: outcome.exit.exitCode, execution_time_ms: result.executionMs });
    return result;
  } finally {
    await session.close();
  }
}

/** Runs a command to its end, shows what it prints as it prints it, and gathers it. */
async function execLive(session: SandboxSession, run: EngineRun, request: ExecRequest): Promise<ExecOutcome> {
  const printed = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  const live = { stdout: new LiveMask(run.mask), stderr: new LiveMask(run.mask) };
  let room = MAX_LIVE_CHARACTERS;
  const show = (type: 'stdout' | 'stderr', text: string): void => {
    if (text === '' || room <= 0) return;
    room -= text.length;
    run.emit(room > 0 ? { type, text } : { type: 'output_truncated' });
  };
  for await (const event of session.exec(request)) {
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

function interpret(
  deps: Deps,
  { mask, deadline, agent }: EngineRun,
  { stdout, stderr, exit }: ExecOutcome,
): EngineResult {
  const text = Buffer.from(stdout).toString();
  const errorText = mask.text(Buffer.from(stderr).toString());
  const kept = {
    stdout: shortenLog(mask.text(text)),
    stderr: shortenLog(errorText),
    exitCode: exit.exitCode,
    executionMs: Math.round(exit.durationMs),
  };
  const failed = (code: 'SANDBOX_ERROR' | 'TIMEOUT' | 'INTERNAL_ERROR', message: string): EngineResult => {
    const tail = errorText.trim().slice(-STDERR_TAIL_CHARACTERS);
    const extra: ErrorExtra =
      code === 'SANDBOX_ERROR'
        ? { category: 'code_error', user_message: message, ...(tail !== '' && { stderr_tail: tail }) }
        : {};
    return { ...kept, warnings: [], error: new PlatformError(code, message, extra) };
  };

  switch (exit.reason) {
    case 'timeout':
    case 'aborted': {
      const own = agent.definition.timeout_seconds;
      const limit =
        own > 0 ? ` (timeout_seconds is ${own}; the caller's deadline and the platform's limit count, too)` : '';
      return failed(
        'TIMEOUT',
        `The agent was still running at its deadline, ${new Date(deadline).toISOString()}, and was stopped${limit}.`,
      );
    }
    case 'output_limit':
      return failed('SANDBOX_ERROR', 'The agent printed more than 10 MB and was stopped.');
    case 'memory_limit': {
      const limit = Math.floor(deps.config.sandboxMemoryBytes / 1024 ** 2);
      return failed('SANDBOX_ERROR', `The agent used more than ${limit} MB of memory and was stopped.`);
    }
    case 'sandbox_lost':
      return failed('INTERNAL_ERROR', 'the sandbox was lost');
    case 'exited':
      break;
  }

  const parsed = parseJsonValue(text);
  if (exit.exitCode !== 0) {
    const said = (parsed as { error?: unknown } | undefined)?.error;
    const message =
      typeof said === 'string' && said !== ''
        ? mask.text(said).slice(0, 2000)
        : `The agent ended with status ${exit.exitCode}.`;
    return failed('SANDBOX_ERROR', message);
  }
  if (text.trim() === '') return { ...kept, data: {}, warnings: [] };
  if (parsed === undefined) {
    const warning: Warning = {
      code: 'VALIDATION_SKIPPED',
      message: 'The agent printed something other than one JSON value; it is in data.result as text.',
    };
    return { ...kept, data: { result: mask.text(text) }, warnings: [warning] };
  }
  return { ...kept, data: mask.json(parsed), warnings: [] };
}
