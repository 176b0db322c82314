import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Load } from './load.ts';

/** One line of the table: what was measured beside what, and what it has to reach. */
export interface Row {
  readonly what: string;
  readonly ours: string;
  readonly beside: string;
  readonly result: string;
  readonly reach: string;
  readonly reached: boolean;
}

export const ROUNDS = 5;
export const ROOT = join(import.meta.dirname, '..');
/** Where `npm run bench:peers` installs the peers. */
export const PEERS = join(ROOT, '.cache/bench-peers');

export const ms = (value: number): string => `${value.toFixed(1)} ms`;

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** A platform as users start it: another process. */
export interface Platform {
  readonly url: string;
  readonly process: ChildProcess;
  readonly key?: string;
  stop(): Promise<void>;
}

export async function startPlatform(dataFolder: string, settings: Record<string, string> = {}): Promise<Platform> {
  const child = spawn(process.execPath, [join(ROOT, 'local/start.ts'), '--no-examples'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PLATFORM_DATA: dataFolder, PLATFORM_PORT: '0', ...settings },
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
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Three seconds of the same request again and again, by another process; a POST when there is a body. */
export function load(
  url: string,
  headers: readonly string[],
  { connections = 20, body = '' }: { connections?: number; body?: string } = {},
): Promise<Load> {
  return new Promise((resolve, reject) => {
    const args = [join(ROOT, 'bench/load.ts'), url, '3', String(connections), body, ...headers];
    const child = spawn(process.execPath, args);
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    child.stderr.pipe(process.stderr);
    child.on('close', (code) =>
      code === 0 ? resolve(JSON.parse(text)) : reject(new Error(`load ended with ${code}`)),
    );
  });
}

/** Of a process and all its descendants; shared pages counted once a process. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const own = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((id) => id !== '');
  return own + children.reduce((sum, id) => sum + residentBytes(Number(id)), 0);
}
