import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { EXIT, UsageError } from '#client/usage-error.ts';

/** The repository that this module lies in; the package lies in none. */
const REPOSITORY = join(import.meta.dirname, '..');
/** For calls under way, before they are broken off, and before the process is killed. */
const BREAK_OFF_MS = 10_000;
const KILL_MS = 15_000;

export interface ChildPlatform {
  readonly url: string;
  /** Of its owner; only its first start prints one. */
  readonly key?: string;
  /** Ends it after its calls under way, which are broken off after ten seconds. */
  stop(): Promise<void>;
}

/** The program that starts a platform: in this repository, or in that of PLATFORM_REPOSITORY. `undefined`: there is none. */
export function startScript(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const script = join(env.PLATFORM_REPOSITORY ?? REPOSITORY, 'local/start.ts');
  return existsSync(script) ? script : undefined;
}

/**
 * Starts a platform that lasts as long as this process. Throws UsageError with what it said if it ends before it answers.
 *
 * @param script that of {@link startScript}
 * @param env all of its environment
 */
export async function startChildPlatform(script: string, env: NodeJS.ProcessEnv): Promise<ChildPlatform> {
  const child = spawnStart(script, env, ['--no-examples', '--child']);
  const stop = () => ended(child);
  try {
    return { ...(await firstLines(child)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A further key of the owner; the platform must not be running. `undefined` if it made none. */
export async function newOwnerKey(script: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const child = spawnStart(script, env, ['--new-key']);
  child.stdin!.end();
  child.stderr!.resume();
  return /sk_\S+/.exec((await child.stdout!.setEncoding('utf8').toArray()).join(''))?.[0];
}

/** In a group of its own: Ctrl-C is for this command, which ends the child in its own time. */
const spawnStart = (script: string, env: NodeJS.ProcessEnv, args: readonly string[]): ChildProcess =>
  spawn(process.execPath, ['--max-semi-space-size=8', script, ...args], {
    env,
    cwd: dirname(dirname(script)),
    // The end of stdin ends the platform, also when this process is killed.
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });

/** The key that the first start prints, and the address. What comes later is read and forgotten: it must not fill the pipe. */
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
  // The second one breaks the calls off.
  const timers = [
    setTimeout(() => child.kill('SIGTERM'), BREAK_OFF_MS),
    setTimeout(() => child.kill('SIGKILL'), KILL_MS),
  ];
  await exit;
  for (const timer of timers) clearTimeout(timer);
}
