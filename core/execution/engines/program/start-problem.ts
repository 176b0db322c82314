import type { ExecOutcome } from '#core/ports/sandbox.ts';

/** Known facts about a failed command. */
export interface FailedCommand {
  /** The shell line. */
  readonly command: string;
  readonly exitCode: number;
  /** At least its last lines. */
  readonly stderr: string;
  /** Text of the bundle's file that the command names first, if any. */
  readonly script?: string;
}

/** Length of the tail of stderr that is searched. The shell's own message comes last. */
const SEARCHED_CHARACTERS = 8 * 1024;

const PROGRAMS = 'python3, pip, node, npm, bash and sh, and those that requirements.txt or package.json install';

/** Exit codes of shells that could not start a program or read a script. */
const SHELL_STATUSES = [2, 126, 127];

/**
 * Returns the cause and the fix if a program could not be started or lacks a module; otherwise `undefined`. The text
 * follows
 * `The agent ended with status 127: `.
 */
export function startProblem(failed: FailedCommand): string | undefined {
  const tail = failed.stderr.slice(-SEARCHED_CHARACTERS);
  return (
    scriptProblem(failed, tail) ?? wrongInterpreter(failed, tail) ?? missing(failed, tail) ?? notStarted(failed, tail)
  );
}

/** Whether the text of the script may explain more than stderr. */
export const mayBeStartProblem = ({ exit }: ExecOutcome): boolean =>
  exit.reason === 'exited' && SHELL_STATUSES.includes(exit.exitCode);

/** Returns the first word of a command that looks like a code file of the bundle. */
export const scriptOf = (command: string): string | undefined =>
  /(?:^|[\s'"=])((?:\.\/)?[\w@+-][\w@+./-]*\.(?:sh|bash|py|[cm]?[jt]s)|\.\/[\w@+./-]+)(?=$|[\s'";|&)])/.exec(
    command,
  )?.[1];

function scriptProblem({ exitCode, script, command }: FailedCommand, tail: string): string | undefined {
  if (!SHELL_STATUSES.includes(exitCode)) return undefined;
  const name = scriptOf(command) ?? 'a script';
  const [first = ''] = script?.split('\n', 1) ?? [];
  if (first.endsWith('\r') || /\\r['’]|\r:|\^M/.test(tail)) {
    return `${name} has Windows line endings (CRLF), which become part of its words. Save it with LF line endings.`;
  }
  const interpreter = /^#!\s*(\S+(?:\s+\S+)?)/.exec(first)?.[1];
  if (exitCode === 127 && interpreter && /required file not found|bad interpreter|not found$/m.test(tail)) {
    return `the interpreter "${interpreter}" in the first line of ${name} is not in the sandbox. It has ${PROGRAMS}.`;
  }
  return undefined;
}

const STARTERS = [
  { files: /\.py$/, isStarter: /^python[\d.]*$/, starter: 'python3' },
  { files: /\.[cm]?[jt]s$/, isStarter: /^(?:node|npx|tsx|deno|bun)$/, starter: 'node' },
  { files: /\.(?:sh|bash)$/, isStarter: /^(?:ba|da|z)?sh$|^\.\/|^source$|^\.$/, starter: 'bash' },
];

function wrongInterpreter({ command }: FailedCommand, tail: string): string | undefined {
  if (!/syntax ?error|ERR_UNKNOWN_FILE_EXTENSION|command not found/i.test(tail)) return undefined;
  const match = /(?:^|[\s;&|(])((?:ba|da|z)?sh|python[\d.]*|node)\s+['"]?([\w@+./-]+\.\w+)/.exec(command);
  if (match === null) return undefined;
  const [, program, file] = match as unknown as [string, string, string];
  const fitting = STARTERS.find(({ files }) => files.test(file));
  if (fitting === undefined || fitting.isStarter.test(program)) return undefined;
  return `the command starts ${file} with ${program}. Start it with ${fitting.starter}.`;
}

const AGENT_FOLDER = '/home/user/agent/';
const inBundle = (path: string): string => (path.startsWith(AGENT_FOLDER) ? path.slice(AGENT_FOLDER.length) : path);

const noFile = (path: string): string =>
  `there is no ${inBundle(path)} in the bundle. Paths begin at its root; a zip of a folder has the folder's name in front.`;

/** Describes files and modules that an interpreter did not find. */
function missing({ exitCode }: FailedCommand, tail: string): string | undefined {
  const file =
    /can't open file '([^'\n]+)': \[Errno 2\]/.exec(tail)?.[1] ??
    (exitCode === 127 ? /^(?:ba)?sh: ([^:\n]+): No such file or directory$/m.exec(tail)?.[1] : undefined) ??
    /Cannot find module '(\/[^'\n]+)'(?=[\s\S]*requireStack: \[\])/.exec(tail)?.[1];
  if (file !== undefined) return noFile(file);

  const pythonModule = /^ModuleNotFoundError: No module named '([\w.]+)'/m.exec(tail)?.[1];
  if (pythonModule !== undefined) {
    return `the Python module "${pythonModule}" is neither in the bundle nor installed. List its package in requirements.txt.`;
  }
  const nodeModule = /Cannot find (?:module|package) '([^'./\n][^'\n]*)'/.exec(tail)?.[1];
  if (nodeModule !== undefined && /MODULE_NOT_FOUND/.test(tail)) {
    return `the package "${nodeModule}" is neither in the bundle nor installed. List it in the dependencies of package.json.`;
  }
  return undefined;
}

/** Describes a message of the shell itself: bash (`bash: line 1: x: ...`), dash (`sh: 1: x: ...`), env and timeout. */
function notStarted({ exitCode }: FailedCommand, tail: string): string | undefined {
  if (exitCode !== 126 && exitCode !== 127) return undefined;
  const said = [
    ...tail.matchAll(
      /^(?:[\w./-]+: (?:line )?\d+: (?:exec: )?|[\w/]*(?:env|timeout|nice): [^‘'\n]*[‘'])([^:’'\n]+)[’']?: (.+)$/gm,
    ),
  ];
  const [, name, reason] = (said.at(-1) ?? []) as (string | undefined)[];
  if (name === undefined || reason === undefined) return undefined;
  if (/Exec format error/.test(reason)) {
    return `${name} is not an executable for this machine, or lacks a first line such as "#!/usr/bin/env python3".`;
  }
  if (/Is a directory/.test(reason)) return `${name} is a folder. Name a file in it.`;
  if (exitCode === 126) {
    return `${name} may not be executed. Start it with its interpreter, such as "bash ${name}", or set its executable bit (chmod +x) before zipping.`;
  }
  if (name.includes('/')) return noFile(name);
  return `there is no program "${name}" in the sandbox. It has ${PROGRAMS}.`;
}
