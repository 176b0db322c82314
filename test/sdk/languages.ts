import { execFileSync, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** One call of an SDK, the same for each language; `timeout` is in seconds. See `driver.js`. */
export interface Job {
  readonly module: 'agent' | 'platform' | 'storage' | 'message' | 'task';
  readonly method: string;
  readonly args?: readonly unknown[];
  readonly options?: Readonly<Record<string, unknown>>;
  /** Headers of the request that the client is made from. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Outcome {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into values of every shape.
  readonly value?: any;
  readonly error?: {
    readonly type: string;
    readonly message: string;
    readonly code: string | null;
    readonly status: number | null;
    readonly [member: string]: unknown;
  };
}

export interface Language {
  readonly name: 'JavaScript' | 'Python' | 'Python with asyncio';
  /** Runs a job in a process with these variables of the platform and no others. */
  run(job: Job, env: Readonly<Record<string, string>>): Promise<Outcome>;
}

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

function language(name: Language['name'], command: readonly string[], variables: Record<string, string>): Language {
  return {
    name,
    async run(job, env) {
      const [program, ...args] = command;
      const child = spawn(program!, args, {
        env: { PATH: process.env.PATH, ...variables, ...env },
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      child.stdin.end(JSON.stringify(job));
      return JSON.parse(await text(child.stdout));
    },
  };
}

/** The clients of this machine that call agents from outside. */
export function clients(): Language[] {
  const all = languages();
  const variables = { PYTHONPATH: pathOf('../../sdk/python'), SDK_ASYNC: '1' };
  const asyncio = language('Python with asyncio', ['python3', '-S', pathOf('driver.py')], variables);
  return all.length > 1 ? [...all, asyncio] : all;
}

/** Languages of this machine; Python may be missing. */
export function languages(): Language[] {
  const javaScript = language('JavaScript', [process.execPath, pathOf('driver.js')], {});
  try {
    execFileSync('python3', ['--version'], { stdio: 'ignore' });
  } catch {
    return [javaScript];
  }
  return [
    javaScript,
    language('Python', ['python3', '-S', pathOf('driver.py')], { PYTHONPATH: pathOf('../../sdk/python') }),
  ];
}
