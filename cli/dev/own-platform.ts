import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Cli } from '../cli.ts';
import { EXIT, UsageError } from '../failure.ts';

/** In the repository; the package has no platform in it. */
const START = fileURLToPath(new URL('../../local/start.ts', import.meta.url));
const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);

export interface DevPlatform {
  /** Speaks to it. */
  readonly cli: Cli;
  /** Ends it if it was started here, after its calls under way. */
  stop(): Promise<void>;
}

/**
 * The platform of the command's connection or, where none answers on this machine, one of the project's own: a child with its
 * data in `.platform/local/` of `folder`, which lasts as long as this process. Throws UsageError if it cannot be started.
 */
export async function devPlatform(cli: Cli, folder: string): Promise<DevPlatform> {
  const { url } = await cli.connection();
  try {
    await (await cli.anyone()).getHealth({});
    return { cli, stop: async () => {} };
  } catch (error) {
    const isRefused = ((error as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED';
    if (!isRefused || !URL.canParse(url) || !LOOPBACK.has(new URL(url).hostname)) throw error;
  }
  if (!existsSync(START)) {
    throw new UsageError(`No platform answers at ${url}.`, {
      hint: 'Start one with `npm start` in the platform’s repository, or name another with --url.',
      exitCode: EXIT.network,
    });
  }
  return startPlatform(cli, folder, url);
}

async function startPlatform(cli: Cli, folder: string, url: string): Promise<DevPlatform> {
  const own = join(folder, '.platform/local');
  await mkdir(own, { recursive: true, mode: 0o700 });
  // Data and key are nothing for a repository.
  await writeFile(join(own, '.gitignore'), '*\n');
  const keyFile = join(own, 'key');
  const { PLATFORM_API_KEY: _, ...env } = cli.host.env;
  const settings = { ...env, PLATFORM_DATA: join(own, 'data'), PLATFORM_PORT: new URL(url).port || '4280' };
  cli.output.note('starting a platform of this project');
  const known = await readFile(keyFile, 'utf8').catch(() => undefined);
  const hasData = existsSync(settings.PLATFORM_DATA);
  const kept = known?.trim() ?? (hasData ? await printed(settings, ['--new-key']) : undefined);
  const child = startChild(settings, ['--no-examples', '--child']);
  const stop = () => ended(child);
  try {
    const { key = kept, url: address } = await firstLines(child);
    if (key === undefined) throw new UsageError(`${own} has data without a key: remove the folder and start again.`);
    await writeFile(keyFile, `${key}\n`, { mode: 0o600 });
    const host = { ...cli.host, env: { ...env, PLATFORM_API_URL: address, PLATFORM_API_KEY: key } };
    const ownCli = new Cli(host);
    const { profile: _profile, url: _url, ...options } = cli.options;
    ownCli.use(options);
    return { cli: ownCli, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** In a group of its own: Ctrl-C is for this command, which ends the child in its own time. */
const startChild = (env: NodeJS.ProcessEnv, args: readonly string[]): ChildProcess =>
  spawn(process.execPath, ['--max-semi-space-size=8', START, ...args], {
    env,
    cwd: dirname(dirname(START)),
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });

/** The key that the first start prints, and the address. Throws UsageError with what the child said if it ends before. */
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
    child.once('exit', (status) => {
      reject(
        new UsageError(`The platform did not start (status ${status}).\n${said}`.trim(), { exitCode: EXIT.failed }),
      );
    });
  });
}

async function printed(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<string | undefined> {
  const child = startChild(env, args);
  child.stdin!.end();
  let text = '';
  child.stdout!.on('data', (part) => {
    text += part;
  });
  child.stderr!.resume();
  await new Promise((resolve) => child.once('close', resolve));
  return /sk_\S+/.exec(text)?.[0];
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.stdin!.end();
  await exit;
}
