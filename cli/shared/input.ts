import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import type { Cli, Host } from './cli.ts';

const READ = new WeakSet<Host['stdin']>();

/** Reads all of stdin. Throws UsageError the second time: the input is gone. */
export async function readStdinBytes({ stdin }: Pick<Host, 'stdin'>): Promise<Buffer<ArrayBuffer>> {
  if (READ.has(stdin)) throw new UsageError('Only one argument or option can be read from stdin: use - once.');
  READ.add(stdin);
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

export const readStdin = async (host: Pick<Host, 'stdin'>): Promise<string> => (await readStdinBytes(host)).toString();

/** Returns a text argument, or stdin for `-`, without the line break that editors and `echo` add. */
export const readText = async (host: Pick<Host, 'stdin'>, given: string): Promise<string> =>
  given === '-' ? (await readStdin(host)).replace(/\r?\n$/, '') : given;

/** Reads a secret from stdin, or prompts for it on a terminal. Throws the errors of {@link Cli.askSecret}. */
export const readSecret = (cli: Cli, message: string): Promise<string> =>
  cli.host.stdin.isTTY ? cli.askSecret(message) : readStdin(cli.host);

/** Parses JSON given as text, as `@file`, or as `-` for stdin. Throws UsageError that names the source. */
export async function readJson(host: Host, given: string, name = 'The JSON'): Promise<unknown> {
  const path = given.startsWith('@') ? given.slice(1) : given === '-' ? given : undefined;
  const text = path === undefined ? given : (await readBytes(host, path)).toString();
  try {
    return JSON.parse(text);
  } catch (error) {
    const where = path === '-' ? 'stdin' : (path ?? name);
    throw new UsageError(`${where} is not valid JSON: ${(error as Error).message}.`);
  }
}

/** Reads a file, or stdin for `-`. Throws UsageError that names the file. */
export async function readBytes(host: Host, path: string): Promise<Buffer<ArrayBuffer>> {
  if (path === '-') return readStdinBytes(host);
  try {
    return await readFile(resolve(host.cwd, path));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}
