import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { onTestFinished } from 'vitest';
import { runCli } from '#cli/program.ts';
import type { Host } from '#cli/shared/cli.ts';
import type { Target } from '#test/helpers/platform.ts';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';

export interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Parsed stdout, which must be one JSON document. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape.
  readonly json: any;
}

export interface Settings {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Width of the terminal. @default - no terminal */
  readonly columns?: number;
  readonly cwd?: string;
  /** @default linux */
  readonly platform?: NodeJS.Platform;
  readonly configFolder?: string;
  readonly fetch?: typeof fetch;
  readonly yieldProcessors?: () => void;
  readonly openUrl?: (url: string) => void;
  /** Whether stdin is a terminal. @default false */
  readonly isTTY?: boolean;
}

export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'platform-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Returns the environment of a process with stdin but without the user's own settings. `written` receives all output.
 */
function commandHost(
  argv: readonly string[],
  settings: Settings = {},
  written = { stdout: '', stderr: '' },
  interrupts: Set<() => void> = new Set(),
): Host {
  const { env = {}, stdin = '', columns, cwd = process.cwd(), configFolder = '/nonexistent/config' } = settings;
  const terminal = (name: keyof typeof written) => ({
    isTTY: columns !== undefined,
    columns,
    write: (text: string) => (written[name] += text),
  });
  return {
    argv,
    env: { NO_COLOR: '1', ...compileCacheVariable(), ...env },
    stdin: Object.assign(
      (async function* () {
        yield stdin;
      })(),
      { isTTY: settings.isTTY },
    ),
    stdout: terminal('stdout'),
    stderr: terminal('stderr'),
    fetch: settings.fetch ?? fetch,
    configFolder,
    cwd,
    platform: settings.platform ?? 'linux',
    onInterrupt(listener) {
      interrupts.add(listener);
      return () => interrupts.delete(listener);
    },
    exit: () => {},
    // The priority of this process would stay low.
    yieldProcessors: settings.yieldProcessors ?? (() => {}),
    openUrl: settings.openUrl ?? (() => {}),
  };
}

/** Adds the address of a platform and its owner's key to the environment of a command. */
export const signedInAt = ({ url, key }: Pick<Target, 'url' | 'key'>, settings: Settings = {}): Settings => ({
  ...settings,
  env: { PLATFORM_API_URL: url, PLATFORM_API_KEY: key, ...settings.env },
});

/** Runs one command line in this process. */
export async function commandLine(argv: readonly string[], settings: Settings = {}): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const status = await runCli(commandHost(argv, settings, written));
  return {
    status,
    ...written,
    get json() {
      return JSON.parse(written.stdout);
    },
  };
}

/** Starts a long-running command in this process. `interrupt` is Ctrl-C. */
export function startCommandLine(argv: readonly string[], settings: Settings = {}) {
  const written = { stdout: '', stderr: '' };
  const interrupts = new Set<() => void>();
  const ended = runCli(commandHost(argv, settings, written, interrupts));
  return {
    written,
    /** The lines of stdout, which are JSON documents. */
    lines: (): Record<string, unknown>[] =>
      written.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    interrupt() {
      for (const listener of interrupts) listener();
    },
    ended,
  };
}

/** Returns the examples after `$ platform` in the help of a command and its subcommands. */
export function examplesOf(command: CommandUnknownOpts): string[] {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  const own = [...text.matchAll(/^ {2}\$ platform (.+)$/gm)].map(([, line]) => line!);
  return [...own, ...command.commands.flatMap(examplesOf)];
}

/** Splits a command line as a shell does, without `< file`. */
export const wordsOf = (line: string): string[] =>
  [...line.replace(/ [<>]+ .*$/, '').matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    (match) => match[1] ?? match[2] ?? match[3]!,
  );
