import type { ExecOutcome, SandboxSession } from '#core/ports/sandbox.ts';
import { mayBeStartProblem, scriptOf } from './start-problem.ts';
import type { Script } from './unanswered.ts';

const BUNDLE_FOLDER = '/home/user/agent';
const MAX_BYTES = 64 * 1024;

/**
 * Reads the beginning of the bundle's file that `command` starts, if it can explain the outcome: the program printed
 * nothing, or did not start. `undefined` otherwise, and for a file that cannot be read.
 */
export async function scriptToExplain(
  session: SandboxSession,
  command: string,
  outcome: ExecOutcome,
): Promise<Script | undefined> {
  const { exit, stdout } = outcome;
  const isEmpty = exit.reason === 'exited' && exit.exitCode === 0 && isBlank(stdout);
  const name = scriptOf(command);
  if (name === undefined || name.includes('..') || !(isEmpty || mayBeStartProblem(outcome))) return undefined;
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of await session.readFile(`${BUNDLE_FOLDER}/${name.replace(/^\.\//, '')}`)) {
      pieces.push(piece);
      bytes += piece.byteLength;
      if (bytes >= MAX_BYTES) break;
    }
  } catch {
    return undefined;
  }
  return { name, text: Buffer.concat(pieces).subarray(0, MAX_BYTES).toString() };
}

const isBlank = (text: Uint8Array): boolean => text.byteLength < 1024 && Buffer.from(text).toString().trim() === '';
