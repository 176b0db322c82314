import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { expect, onTestFinished } from 'vitest';

const MAIN = join(import.meta.dirname, '../../cli/main.ts');
/** Runs a program on a pseudo terminal, and forwards input and output. */
const RELAY = `
import os, pty, sys, termios, fcntl, struct
def start():
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
        os.execvp(sys.argv[1], sys.argv[1:])
    return pid, terminal
pid, terminal = start()
try:
    pty._copy(terminal)
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';

export const noTerminal = spawnSync('python3', ['-c', 'import pty']).status === 0 ? undefined : 'python3 has no pty';

export interface TypedCommand {
  /** All terminal output so far, without colors and cursor movements. */
  screen(): string;
  /** Waits for a text, and discards the output up to it. */
  shows(text: string | RegExp): Promise<string>;
  type(keys: string): void;
  /** The exit status. */
  readonly ended: Promise<number>;
}

/** Starts `platform` as a process on a pseudo terminal of 100 columns, whose user has an empty home. */
export function typedCommand(
  argv: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): TypedCommand {
  const child = spawn('python3', ['-c', RELAY, process.execPath, MAIN, ...argv], {
    cwd,
    env: { HOME: cwd, PATH: process.env.PATH, TERM: 'xterm', ...compileCacheVariable(), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let all = '';
  let seen = 0;
  child.stdout.setEncoding('utf8').on('data', (text) => (all += text));
  const ended = once(child, 'close').then(([status]) => status as number);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const screen = () => stripVTControlCharacters(all).replaceAll('\r', '');
  return {
    screen,
    ended,
    type: (keys) => void child.stdin.write(keys),
    async shows(text) {
      const pattern = typeof text === 'string' ? new RegExp(RegExp.escape(text)) : text;
      await expect.poll(() => screen().slice(seen), { timeout: 30_000 }).toMatch(pattern);
      const found = pattern.exec(screen().slice(seen))!;
      seen += found.index + found[0].length;
      return found[0];
    },
  };
}
