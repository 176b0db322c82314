import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { EXIT, UsageError } from '#client/usage-error.ts';

const START = join(import.meta.dirname, '../local/start.ts');
/** Time until calls in flight are aborted, and until the process is killed. */
const BREAK_OFF_MS = 10_000;
const KILL_MS = 15_000;

export interface ChildPlatform {
  readonly url: string;
  /** Key of the owner. Only the first start prints one. */
  readonly key?: string;
  /** Stops it after its calls in flight, which are aborted after ten seconds. */
  stop(): Promise<void>;
}

/**
 * Starts a platform that lives as long as this process. Throws UsageError with its output if it exits before it is
 * ready.
 *
 * @param env its complete environment
 */
export async function startChildPlatform(env: NodeJS.ProcessEnv): Promise<ChildPlatform> {
  const child = spawnStart(env, ['--no-examples', '--child']);
  const stop = () => ended(child);
  try {
    return { ...(await firstLines(child)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Creates another key of the owner; the platform must not be running. Returns `undefined` if none was created. */
export async function newOwnerKey(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const child = spawnStart(env, ['--new-key']);
  child.stdin!.end();
  child.stderr!.resume();
  return /sk_\S+/.exec((await child.stdout!.setEncoding('utf8').toArray()).join(''))?.[0];
}

/** Starts it in its own process group, so that Ctrl-C reaches only this command, which then stops the child. */
const spawnStart = (env: NodeJS.ProcessEnv, args: readonly string[]): ChildProcess =>
  spawn(process.execPath, ['--max-semi-space-size=8', START, ...args], {
    env,
    cwd: dirname(import.meta.dirname),
    // The platform stops when stdin closes, even if this process is killed.
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });

/** Reads the key of the first start and the URL. Later output is discarded, so that it does not fill the pipe. */
function firstLines(child: ChildProcess): Promise<{ readonly key?: string; readonly url: string }> {
  return new Promise((resolve, reject) => {
    let said = '';
    let key: string | undefined;
    child.stderr!.on('data', (text) => {
      said = `${said}${text}`.slice(-2000);
    });
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const [, name, value] = /^(API key|Platform): +(\S+)/.exec(line) ?? [];
      if (name === 'API key' && value!.startsWith('sk_')) key = value;
      if (name === 'Platform') resolve({ key, url: value! });
    });
    child.once('error', reject);
    child.once('close', (status) => {
      reject(
        new UsageError(`The platform did not start (status ${status}).\n${said}`.trim(), { exitCode: EXIT.failed }),
      );
    });
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  // The second signal aborts the calls in flight.
  const timers = [
    setTimeout(() => child.kill('SIGTERM'), BREAK_OFF_MS),
    setTimeout(() => child.kill('SIGKILL'), KILL_MS),
  ];
  await exit;
  for (const timer of timers) clearTimeout(timer);
}
