import { PlatformError } from '#core/base/errors.ts';
import type { LlmFile } from '#core/ports/llm.ts';
import type { ExecOutcome } from '#core/ports/sandbox.ts';
import type { ModelCost } from '#core/runs/run.ts';
import { interruptedError } from '../interruption.ts';

/** Time limit of one command of a tool (`docs/interface/loops.md#built-in-tools`). */
export const COMMAND_SECONDS = 120;
/** Prefix that marks a result as an error for the model (`docs/interface/loops.md#built-in-tools`). */
export const ERROR = '[ERROR]';

export interface ToolOutcome {
  readonly text: string;
  readonly isError: boolean;
  /** Files that the model is shown with the text. */
  readonly files?: readonly LlmFile[];
  /** What the call cost, besides the model. */
  readonly cost?: ModelCost;
}

export const outcomeOf = (text: string): ToolOutcome => ({ text, isError: text.startsWith(ERROR) });
export const errorOutcome = (message: string): ToolOutcome => outcomeOf(`${ERROR} ${message}`);

/**
 * Returns a command's result for the model: its output, and why it ended. Throws SANDBOX_ERROR if the sandbox ran out
 * of
 * memory, INTERNAL_ERROR if it was lost.
 */
export function commandOutcome({ stdout, stderr, exit }: ExecOutcome): ToolOutcome {
  const [out, err] = [readable(stdout), readable(stderr)];
  const printed = [out, err === '' ? '' : `STDERR:\n${err}`].filter((part) => part !== '');
  switch (exit.reason) {
    case 'exited':
      if (exit.exitCode !== 0) printed.push(`[exit code: ${exit.exitCode}]`);
      break;
    case 'timeout':
      printed.unshift(
        `${ERROR} The command ran for more than ${COMMAND_SECONDS} seconds and was stopped. Let it do less at once, or run in the background with its output in a file.`,
      );
      break;
    case 'aborted':
      printed.unshift(`${ERROR} The command was stopped, because the run ended.`);
      break;
    case 'output_limit':
      printed.unshift(
        `${ERROR} The command printed more than 10 MB and was stopped. Send its output to a file and read a part of it.`,
      );
      break;
    case 'memory_limit':
    case 'sandbox_lost':
      throw sandboxFailure(exit.reason);
  }
  return outcomeOf(printed.length === 0 ? '(no output)' : printed.join('\n'));
}

/** Returns the error of a run whose sandbox has ended. */
export const sandboxFailure = (reason: 'memory_limit' | 'sandbox_lost'): PlatformError =>
  reason === 'sandbox_lost'
    ? interruptedError()
    : new PlatformError('SANDBOX_ERROR', "The agent's tools used up their memory and were stopped.", {
        category: 'code_error',
      });

const readable = (bytes: Uint8Array): string => withoutNul(Buffer.from(bytes).toString()).trimEnd();

/** Replaces NUL characters, which providers reject. */
export const withoutNul = (text: string): string => text.replaceAll('\0', '\uFFFD');
