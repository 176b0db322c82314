import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { strToU8, zipSync } from 'fflate';
import { type Client, createClient } from '#core/api/client.ts';
import type { Load } from './load.ts';

/** One line of the table: a measurement, its baseline, their ratio and the bound on it. */
export interface Row {
  readonly what: string;
  readonly ours: string;
  readonly beside: string;
  readonly result: string;
  readonly bound: string;
  readonly isMet: boolean;
  /** Relative tolerance before `--check` reports a worse run. @default by the kind of figure, see `regressions.ts` */
  readonly tolerance?: number;
}

export const ROUNDS = 5;
export const ROOT = join(import.meta.dirname, '..');
/** Folder into which `npm run bench:peers` installs the peers. */
export const PEERS = join(ROOT, '.cache/bench-peers');

export const ms = (value: number): string => `${value.toFixed(1)} ms`;

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The command of `npm start`. */
const START = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  .scripts.start.split(' ')
  .slice(1);

/** Platform in its own process, started as users start it. */
export interface Platform {
  readonly url: string;
  readonly process: ChildProcess;
  readonly key?: string;
  stop(): Promise<void>;
}

export async function startPlatform(dataFolder: string, settings: Record<string, string> = {}): Promise<Platform> {
  const child = spawn(process.execPath, [...START, '--no-examples'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      XDG_CONFIG_HOME: dataFolder,
      PLATFORM_DATA: dataFolder,
      PLATFORM_PORT: '0',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let key: string | undefined;
  const url = await new Promise<string>((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`the platform ended with status ${code}`)));
    createInterface({ input: child.stdout! }).on('line', (line) => {
      key ??= /(sk_live_\w+)/.exec(line)?.[1];
      const address = /^Platform:\s+(\S+)/.exec(line)?.[1];
      if (address) resolve(address);
    });
  });
  return {
    url,
    process: child,
    key,
    async stop() {
      if (child.exitCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Returns the platform's answer to a GET. Throws unless it succeeds. */
export async function ask({ url, key }: Pick<Platform, 'url' | 'key'>, path: string): Promise<unknown> {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok) throw new Error(`GET ${path}: ${response.status}`);
  return response.json();
}

interface LoadOptions {
  /** @default 20 */
  readonly connections?: number;
  /** @default 3 */
  readonly seconds?: number;
  /** Requests per second over all connections. @default unlimited */
  readonly rate?: number;
  /** Body of a POST; without it the request is a GET. */
  readonly body?: string;
}

/** Repeats one request from another process. */
export async function load(
  url: string,
  headers: readonly string[],
  { connections = 20, seconds = 3, rate = 0, body = '' }: LoadOptions = {},
): Promise<Load> {
  const numbers = [seconds, connections, rate].map(String);
  const args = [join(ROOT, 'bench/load.ts'), url, ...numbers, body, ...headers];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

/** Starts a program of the bench that prints its port. */
export async function startProgram(
  file: string,
  args: readonly string[] = [],
): Promise<{ port: number; process: ChildProcess }> {
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { port: Number(String(line).trim()), process: child };
}

/** Platform with its own data and a provider key, and its model, `bench/llm-server.ts`. */
export interface Bench {
  readonly platform: Platform;
  readonly client: Client;
  /** URL without a slash at the end. */
  readonly llmUrl: string;
  /** Scratch folder of the measurement. */
  readonly folder: string;
}

export async function withPlatform<Result>(work: (bench: Bench) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const llmUrl = `http://127.0.0.1:${llm.port}`;
  const platform = await startPlatform(join(folder, 'data'), {
    PLATFORM_ANTHROPIC_URL: `${llmUrl}/v1`,
    PLATFORM_OPENAI_URL: `${llmUrl}/v1`,
  });
  try {
    const client = createClient({ baseUrl: platform.url, key: platform.key });
    const { workspaces } = await client.listWorkspaces({});
    for (const name of ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY']) {
      await client.putSecret({ params: { workspace_id: workspaces[0]!.id }, body: { name, value: 'sk-ant-bench' } });
    }
    return await work({ platform, client, llmUrl, folder });
  } finally {
    await platform.stop();
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Publishes a program as an agent: a Python program, or files by path. */
export async function publishProgram(
  client: Client,
  name: string,
  code: string | Readonly<Record<string, string>>,
  more: object = {},
): Promise<{ readonly id: string }> {
  const { agent } = await client.createAgent({
    body: {
      name,
      type: 'tool',
      description: 'Measured',
      supported_providers: ['any'],
      required_secrets: [],
      runtime: { command: 'python3 main.py' },
      ...more,
    },
  });
  const form = new FormData();
  const files = Object.entries(typeof code === 'string' ? { 'main.py': code } : code);
  const entries = Object.fromEntries(files.map(([path, text]) => [path, strToU8(text)]));
  const zip = zipSync(entries) as Uint8Array<ArrayBuffer>;
  form.set('file', new Blob([zip]), 'bundle.zip');
  await client.uploadBundle({ params: { id: agent.id }, body: form });
  return agent;
}

/** Memory of a process and its descendants; shared pages count once per process. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const own = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((id) => id !== '');
  return own + children.reduce((sum, id) => sum + residentBytes(Number(id)), 0);
}

const TICK_MS = 10;

/** CPU time of a process so far. */
export function processorMs(pid: number): number {
  // The process name may contain spaces; the fields after it begin with the state.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Returns the CPU time of a process in all its living threads, as the scheduler counts it. */
export function exactProcessorMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const times = threads.map((id) => Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]));
  return times.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e6;
}
