import { execFileSync, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** One call of an SDK, the same for each language; `timeout` is in seconds. See `driver.js`. */
export interface Job {
  readonly module: 'agent' | 'platform' | 'session' | 'storage' | 'message' | 'task';
  readonly method: string;
  readonly args?: readonly unknown[];
  readonly options?: Readonly<Record<string, unknown>>;
  /** Methods of a session that are called one after the other, each with its arguments. */
  readonly steps?: readonly (readonly [method: string, ...args: unknown[]])[];
  /** Headers of the request that the client is made from. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Seconds from the begin of the job to the deadline of the run. */
  readonly deadlineIn?: number;
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
  /** Runs a job with these variables of the platform and no others. */
  run(job: Job, env: Readonly<Record<string, string>>): Promise<Outcome>;
}

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** A process that does one job after the other. It ends with the process of the tests, whose end closes its input. */
function startDriver([program, ...args]: readonly string[], variables: Record<string, string>) {
  const env = { PATH: process.env.PATH, ...variables };
  const child = spawn(program!, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  for (const handle of [child, child.stdin as Socket, child.stdout as Socket]) handle.unref();
  return async (job: object): Promise<Outcome> => {
    child.stdin.write(`${JSON.stringify(job)}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error(`${program} ended before it answered`);
    return JSON.parse(value);
  };
}

function language(name: Language['name'], command: readonly string[], variables: Record<string, string>): Language {
  // To start a process takes longer than most jobs.
  const idle: ReturnType<typeof startDriver>[] = [];
  return {
    name,
    async run(job, env) {
      const driver = idle.pop() ?? startDriver(command, variables);
      const outcome = await driver({ ...job, env });
      idle.push(driver);
      return outcome;
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
