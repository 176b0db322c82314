import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync } from 'node:fs';
import { basename, join } from 'node:path';
import { VERSION } from '#core/base/version.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Registry and network of this machine, which a newcomer has, too. */
const NETWORK = /^(npm_config_registry|ssl_cert_\w+|node_extra_ca_certs|(https?|no)_proxy)$/i;

/**
 * Packs `agent-platform` and returns the archive in `folder`. It packs in place, where the dashboard and the
 * documentation may be built already.
 */
export function packPlatform(folder: string): string {
  const args = ['pack', './cli/package', '--silent', '--pack-destination', folder];
  execFileSync('npm', args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
  return join(folder, `agent-platform-${VERSION}.tgz`);
}

/** A platform that npx started from the archive, as the first thing that this user did. */
export interface PackagedPlatform {
  readonly url: string;
  readonly key: string;
  /** What the start printed. */
  readonly said: string;
  /** The folder in which it was started. */
  readonly app: string;
  /** The folder `node_modules` of the installation. */
  readonly installed: string;
  /** The call that the start shows. */
  readonly example: { readonly agent: string; readonly input: string };
  /** Runs a command of the installation and returns what it prints. Throws unless it succeeds. */
  platform(...args: string[]): string;
  stop(): Promise<void>;
}

/**
 * Starts the demo in an empty folder below `folder`, for a user without a cache, with the Node of the machine. Throws
 * with the output if it ends before it is ready.
 */
export async function startFromPackage(archive: string, folder: string): Promise<PackagedPlatform> {
  const user = mkdtempSync(join(folder, 'user-'));
  const [app, home] = [join(user, 'app'), join(user, 'home')];
  for (const each of [app, home]) mkdirSync(each);
  copyFileSync(archive, join(app, basename(archive)));
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => NETWORK.test(name))),
    // Not the Node of the repository.
    PATH: process.env
      .PATH!.split(':')
      .filter((path) => !path.includes('node_modules'))
      .join(':'),
    HOME: home,
    TMPDIR: user,
    npm_config_cache: join(user, 'cache'),
    npm_config_update_notifier: 'false',
    PLATFORM_PORT: '0',
  };
  // In a group of its own: npx starts the platform in a shell.
  const npx = spawn('npx', ['--yes', `file:./${basename(archive)}`, 'start'], { cwd: app, env, detached: true });
  const said = await outputUntil(npx, 'Services that you can deploy');
  const [, agent, input] = /\/main\/([\w-]+)\/latest[\s\S]*-d @(\S+)/.exec(said)!;
  const [, installed] = /^(.*\/node_modules)\/agent-platform\//.exec(input!)!;
  return {
    ...{ said, app, installed: installed!, example: { agent: agent!, input: input! } },
    url: /^Platform: +(\S+)$/m.exec(said)![1]!,
    key: /^API key: +(sk_\S+)/m.exec(said)![1]!,
    platform: (...args) => execFileSync(join(installed!, '.bin/platform'), args, { cwd: app, env, encoding: 'utf8' }),
    async stop() {
      const ended = once(npx, 'close');
      process.kill(-npx.pid!, 'SIGTERM');
      await ended;
    },
  };
}

function outputUntil(program: ChildProcess, last: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    for (const output of [program.stdout!, program.stderr!]) {
      output.on('data', (text) => {
        said += text;
        if (said.includes(last)) resolve(said);
      });
    }
    program.once('error', reject);
    program.once('close', (status) => reject(new Error(`It ended with status ${status}:\n${said}`)));
  });
}
