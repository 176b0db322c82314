import { constants } from 'node:os';
import { PlatformError } from '#core/base/errors.ts';
import { parseJsonValue } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ExecOutcome } from '#core/ports/sandbox.ts';
import { type SecretMask, shortenLog, shortenTo } from '#core/runs/masking/masking.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { interruptedError } from './interruption.ts';
import { failureLine } from './program/failure-line.ts';
import { startProblem } from './program/start-problem.ts';
import { emptyOutputWarning, isServer, NO_ANSWER_HINT, runningHint, type Script } from './program/unanswered.ts';

/** Length of the tail of stderr in error messages. */
const STDERR_TAIL_CHARACTERS = 500;
/** Maximum size of stderr in an error's details (`docs/interface/errors.md#error-envelope`). */
const DETAILS_BYTES = 4 * 1024;
/** Maximum length of an error message from the program. */
const MAX_ERROR_CHARACTERS = 2000;

type ProgramRun = Pick<EngineRun, 'mask' | 'deadline' | 'agent' | 'runId' | 'workspaceId'>;

/** A finished command. */
interface EndedCommand {
  /** The shell line. */
  readonly command: string;
  readonly outcome: ExecOutcome;
  /** File that the command starts, if it explains the outcome. */
  readonly script: Script | undefined;
}

/** Output of the command as text, stderr masked. */
interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

/** Interprets the exit and the output of a program. The result is masked. */
export function resultOfProgram(
  config: Pick<Deps['config'], 'sandboxMemoryBytes'>,
  run: ProgramRun,
  ended: EndedCommand,
): EngineResult {
  const { mask } = run;
  const { exit, stdout, stderr } = ended.outcome;
  const printed = { stdout: Buffer.from(stdout).toString(), stderr: mask.text(Buffer.from(stderr).toString()) };
  const kept = {
    warnings: [],
    stdout: shortenLog(mask.text(printed.stdout)),
    stderr: shortenLog(printed.stderr),
    exitCode: exit.exitCode,
    executionMs: Math.round(exit.durationMs),
  };
  if (exit.reason === 'exited' && exit.exitCode === 0) return { ...kept, ...readOutput(printed.stdout, run, ended) };
  return { ...kept, error: errorOf(config, run, ended, printed) };
}

function errorOf(
  config: Pick<Deps['config'], 'sandboxMemoryBytes'>,
  run: ProgramRun,
  ended: EndedCommand,
  printed: Printed,
): PlatformError {
  const { exit } = ended.outcome;
  const failure = (message: string) => programError(message, run, exit.exitCode, printed);
  switch (exit.reason) {
    case 'timeout':
    case 'aborted':
      return timeoutError(run, printed);
    case 'output_limit':
      return failure('The agent printed more than 10 MB and was stopped.');
    case 'memory_limit': {
      const limit = Math.floor(config.sandboxMemoryBytes / 1024 ** 2);
      return failure(`The agent used more than ${limit} MB of memory and was stopped.`);
    }
    case 'sandbox_lost':
      return interruptedError();
    case 'exited':
      return failure(ownMessage(printed.stdout, run.mask) ?? run.mask.text(exitMessage(ended, printed.stderr)));
  }
}

function timeoutError(run: ProgramRun, printed: Printed): PlatformError {
  const { timeout_seconds: own } = run.agent.definition;
  const limit =
    own > 0 ? ` (timeout_seconds is ${own}; the caller's deadline and the platform's limit also apply)` : '';
  const isServing = isServer(printed.stderr) || isServer(printed.stdout);
  return new PlatformError(
    'TIMEOUT',
    `The agent was still running at its deadline, ${new Date(run.deadline).toISOString()}, and was stopped${limit}.`,
    {
      hint: run.agent.definition.reuse ? NO_ANSWER_HINT : runningHint(isServing),
      details: detailsOf(run, printed),
      ...(isServing && { is_retryable: false }),
    },
  );
}

function programError(message: string, run: ProgramRun, exitCode: number, printed: Printed): PlatformError {
  const tail = printed.stderr.trim().slice(-STDERR_TAIL_CHARACTERS);
  return new PlatformError('SANDBOX_ERROR', message, {
    category: 'code_error',
    user_message: message,
    ...(tail !== '' && { stderr_tail: tail }),
    details: { exit_code: exitCode, ...detailsOf(run, printed) },
  });
}

function detailsOf({ workspaceId, runId }: ProgramRun, { stderr }: Printed) {
  const log = `/workspaces/${workspaceId}/runs/${runId}/logs`;
  return stderr.trim() === '' ? { log } : { stderr: shortenTo(DETAILS_BYTES, stderr), log };
}

/** Returns the member `error` of the program's JSON output. */
function ownMessage(printed: string, mask: SecretMask): string | undefined {
  const { error } = (parseJsonValue(printed) ?? {}) as { error?: unknown };
  return typeof error === 'string' && error !== '' ? mask.text(error).slice(0, MAX_ERROR_CHARACTERS) : undefined;
}

/** Describes the exit code and its cause: why the program did not start, or the exception that ended it. */
function exitMessage({ command, outcome, script }: EndedCommand, stderr: string): string {
  const { exitCode } = outcome.exit;
  const cause = startProblem({ command, exitCode, stderr, script: script?.text }) ?? failureLine(stderr);
  const status = `The agent ended with status ${exitCode}${signalOf(exitCode)}`;
  return cause === undefined ? `${status}.` : `${status}: ${cause}`;
}

/** Returns the signal, which shells report as an exit code of 128 plus its number. */
function signalOf(exitCode: number): string {
  const name = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return name === undefined ? '' : ` (${name})`;
}

/** Parses a program's output as JSON. Other text becomes `{"result": text}`, empty output `{}`, each with a warning. */
function readOutput(
  printed: string,
  { mask }: ProgramRun,
  { script }: EndedCommand,
): Pick<EngineResult, 'data' | 'warnings'> {
  if (printed.trim() === '') return { data: {}, warnings: [emptyOutputWarning(script)] };
  const value = parseJsonValue(printed);
  if (value !== undefined) return { data: mask.json(value), warnings: [] };
  return {
    data: { result: mask.text(printed) },
    warnings: [
      {
        code: 'VALIDATION_SKIPPED',
        message: 'The agent printed something other than one JSON value; it is in data.result as text.',
      },
    ],
  };
}
