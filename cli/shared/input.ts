import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import type { Cli, Host } from './cli.ts';

/** Reads all of stdin. */
export async function readStdin({ stdin }: Pick<Host, 'stdin'>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

/** Reads a secret from stdin, or prompts for it on a terminal. Throws the errors of {@link Cli.askSecret}. */
export const readSecret = (cli: Cli, message: string): Promise<string> =>
  cli.host.stdin.isTTY ? cli.askSecret(message) : readStdin(cli.host);

/** Parses JSON given as text, as `@file`, or as `-` for stdin. Throws UsageError that names the source. */
export async function readJson(host: Host, given: string, name = 'The JSON'): Promise<unknown> {
  const path = given.startsWith('@') ? given.slice(1) : undefined;
  const text = given === '-' ? await readStdin(host) : path === undefined ? given : await readTextFile(host, path);
  try {
    return JSON.parse(text);
  } catch (error) {
    const where = given === '-' ? 'stdin' : (path ?? name);
    throw new UsageError(`${where} is not valid JSON: ${(error as Error).message}.`);
  }
}

export async function readTextFile({ cwd }: Pick<Host, 'cwd'>, path: string): Promise<string> {
  try {
    return await readFile(resolve(cwd, path), 'utf8');
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}
