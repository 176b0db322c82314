import { UsageError } from '#client/usage-error.ts';
import type { Cli } from './cli.ts';
import { readSecret, readStdin } from './input.ts';

/**
 * Reads a secret value from stdin, or prompts for it. Throws UsageError for one that was passed as an argument: these are
 * visible to other users of the machine, and stored in shell histories.
 *
 * @param given The argument: `-` for stdin.
 * @param command The command before that argument, for hints.
 */
export async function secretArgument(
  cli: Cli,
  { given, label, command }: { readonly given: string | undefined; readonly label: string; readonly command: string },
): Promise<string> {
  if (given !== undefined && given !== '-') {
    throw new UsageError('A secret cannot be passed as an argument: other users of this machine could see it.', {
      hint: `Pass it on stdin, as in \`${command} - < key.txt\`, and replace it if it was real.`,
    });
  }
  const value = given === '-' ? await readStdin(cli.host) : await readSecret(cli, label);
  // Editors and `echo` end a file with a line break, which is never part of a key.
  const trimmed = value.replace(/\r?\n$/, '');
  if (trimmed === '') throw new UsageError(`${label} is empty. Pass it on stdin, as in \`${command} < key.txt\`.`);
  return trimmed;
}
