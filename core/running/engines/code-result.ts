import type { AgentDefinition } from '#core/agents/definition.ts';
import { PlatformError } from '#core/base/errors.ts';
import { parseJsonValue } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ExecOutcome } from '#core/ports/sandbox.ts';
import { type SecretMask, shortenLog } from '#core/runs/masking.ts';
import type { EngineResult, EngineRun } from './engine.ts';

/** Length of the end of stderr in error messages. */
const STDERR_TAIL_CHARACTERS = 500;
/** Length of an error message that the program wrote itself. */
const MAX_ERROR_CHARACTERS = 2000;

/** What the exit of a program and its output mean, masked. */
export function resultOfProgram(
  config: Pick<Deps['config'], 'sandboxMemoryBytes'>,
  { mask, deadline, agent }: Pick<EngineRun, 'mask' | 'deadline' | 'agent'>,
  outcome: ExecOutcome,
): EngineResult {
  const { exit } = outcome;
  const printed = Buffer.from(outcome.stdout).toString();
  const stderr = mask.text(Buffer.from(outcome.stderr).toString());
  const kept = {
    warnings: [],
    stdout: shortenLog(mask.text(printed)),
    stderr: shortenLog(stderr),
    exitCode: exit.exitCode,
    executionMs: Math.round(exit.durationMs),
  };
  switch (exit.reason) {
    case 'timeout':
    case 'aborted':
      return { ...kept, error: timeoutError(agent.definition, deadline) };
    case 'output_limit':
      return { ...kept, error: programError('The agent printed more than 10 MB and was stopped.', stderr) };
    case 'memory_limit': {
      const limit = Math.floor(config.sandboxMemoryBytes / 1024 ** 2);
      return {
        ...kept,
        error: programError(`The agent used more than ${limit} MB of memory and was stopped.`, stderr),
      };
    }
    case 'sandbox_lost':
      return { ...kept, error: new PlatformError('INTERNAL_ERROR', 'the sandbox was lost') };
    case 'exited':
      if (exit.exitCode === 0) return { ...kept, ...readOutput(printed, mask) };
      return { ...kept, error: programError(exitMessage(printed, exit.exitCode, mask), stderr) };
  }
}

function timeoutError({ timeout_seconds: own }: AgentDefinition, deadline: number): PlatformError {
  const limit =
    own > 0 ? ` (timeout_seconds is ${own}; the caller's deadline and the platform's limit count, too)` : '';
  return new PlatformError(
    'TIMEOUT',
    `The agent was still running at its deadline, ${new Date(deadline).toISOString()}, and was stopped${limit}.`,
  );
}

function programError(message: string, stderr: string): PlatformError {
  const tail = stderr.trim().slice(-STDERR_TAIL_CHARACTERS);
  return new PlatformError('SANDBOX_ERROR', message, {
    category: 'code_error',
    user_message: message,
    ...(tail !== '' && { stderr_tail: tail }),
  });
}

/** The member `error` of the JSON that the program printed, or a message with its exit code. */
function exitMessage(printed: string, exitCode: number, mask: SecretMask): string {
  const { error } = (parseJsonValue(printed) ?? {}) as { error?: unknown };
  return typeof error === 'string' && error !== ''
    ? mask.text(error).slice(0, MAX_ERROR_CHARACTERS)
    : `The agent ended with status ${exitCode}.`;
}

/** The JSON value that a program printed. Other text becomes `{"result": text}`, with a warning. */
function readOutput(printed: string, mask: SecretMask): Pick<EngineResult, 'data' | 'warnings'> {
  if (printed.trim() === '') return { data: {}, warnings: [] };
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
