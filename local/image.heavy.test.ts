import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';

/**
 * Tests the platform's image (`Dockerfile`) with the options of docs/self-host.md. It needs a Docker engine that can
 * pull the base image, or another base: `PLATFORM_IMAGE_ARGS="BASE=… PACKAGES="`.
 */
const ROOT = join(import.meta.dirname, '..');
const TAG = `agent-platform-test-${process.pid}`;
const OPTIONS = [
  // Docker's init reaps orphaned processes of runs: the platform must not be process 1.
  '--init',
  ...['seccomp', 'systempaths', 'apparmor'].flatMap((name) => ['--security-opt', `${name}=unconfined`]),
];
const MINUTES = 60_000;

const docker = (...args: string[]) => spawnSync('docker', args, { encoding: 'utf8', timeout: 9 * MINUTES });

function buildImage(): string | undefined {
  const engine = docker('info', '--format', '{{.ServerVersion}}');
  if (engine.error || engine.status !== 0) return 'no Docker engine answers';
  const args = (process.env.PLATFORM_IMAGE_ARGS ?? '').split(' ').filter(Boolean);
  const built = docker(
    'build',
    '--network',
    'host',
    '--tag',
    TAG,
    ...args.flatMap((arg) => ['--build-arg', arg]),
    ROOT,
  );
  if (built.status === 0) return undefined;
  if (args.length > 0) throw new Error(built.stderr);
  return `the image cannot be built here: ${built.stderr.trim().split('\n').at(-1)}`;
}

const problem = buildImage();

describe.skipIf(problem !== undefined)(
  `the platform's image${problem ? ` (not tried: ${problem})` : ''}`,
  { timeout: 5 * MINUTES },
  () => {
    let id: string;
    const platform = (...args: string[]) => {
      const { stdout, stderr } = docker('exec', id, 'platform', ...args);
      if (stdout.trim() === '') throw new Error(stderr);
      return JSON.parse(stdout);
    };
    beforeAll(async () => {
      const started = docker('run', '--detach', ...OPTIONS, TAG, '--no-examples');
      id = started.stdout.trim();
      if (id === '') throw new Error(started.stderr);
    });
    afterAll(() => {
      docker('rm', '--force', '--volumes', id);
      docker('rmi', '--force', TAG);
    });

    test('runs a platform with a sandbox, as an ordinary user', async () => {
      await expect.poll(() => platform('status').running, { timeout: 2 * MINUTES }).toBe(true);
      expect(platform('status')).toMatchObject({
        version: VERSION,
        data_folder: '/data',
        sandbox: { kind: 'unshare' },
      });
      expect(docker('exec', id, 'id', '-u').stdout.trim()).toBe('1000');
      const [, effective] = /^CapEff:\s+(\w+)$/m.exec(docker('exec', id, 'cat', '/proc/1/status').stdout)!;
      expect(effective).toMatch(/^0+$/);
      const folder = '/platform/examples/html-to-markdown';
      expect(platform('publish', folder).agent.name).toBe('html-to-markdown');
      expect(platform('run', 'html-to-markdown', `${folder}/sample-input.json`)).toHaveProperty('data');
    });

    test('starts the demo with its pages, unless told otherwise', async () => {
      const demo = docker('run', '--detach', ...OPTIONS, TAG).stdout.trim();
      try {
        await expect.poll(() => docker('logs', demo).stdout, { timeout: 4 * MINUTES }).toContain('Call an agent:');
        expect(docker('logs', demo).stdout).toMatch(/^API key: +sk_/m);
        for (const path of ['docs', 'docs/calls.md', 'dashboard']) {
          const url = `http://127.0.0.1:4280/${path}`;
          const page = docker('exec', demo, 'curl', '--silent', '--fail', '--location', url);
          expect(page.status, path).toBe(0);
        }
      } finally {
        docker('rm', '--force', '--volumes', demo);
      }
    });

    test('is backed up while it runs, and the archive makes another one', () => {
      expect(platform('backup', '/tmp/saved.tar.gz').files).toBeGreaterThan(0);
      expect(platform('restore', '/tmp/saved.tar.gz', '--data', '/tmp/restored').data_folder).toBe('/tmp/restored');
    });

    test('ends when the engine asks it to', () => {
      expect(docker('stop', '--time', '60', id).status).toBe(0);
      expect(docker('inspect', '--format', '{{.State.ExitCode}}', id).stdout.trim()).toBe('0');
      expect(docker('start', id).status).toBe(0);
    });

    test('has no sandbox without these options, and says so', () => {
      const { stdout } = docker('run', '--rm', '--entrypoint', 'platform', TAG, 'doctor');
      const { checks } = JSON.parse(stdout) as { checks: { name: string; ok: boolean; detail: string }[] };
      expect(checks.find(({ name }) => name === 'sandbox')).toMatchObject({
        ok: false,
        detail: expect.stringContaining('No sandbox works'),
      });
    });

    test('passes the sandbox suite inside', () => {
      const packages = realpathSync(join(ROOT, 'node_modules'));
      // Not mounted at its own path: the Docker folder may be below it and would show in the list of mounts.
      const mounts = ['--volume', `${ROOT}:/suite:ro`, '--volume', `${packages}:${packages}:ro`];
      const suite = [
        '--configLoader',
        'runner',
        '--project',
        'processes',
        '--project',
        'heavy',
        'local/sandbox/local-sandbox',
      ];
      const run = ['--rm', '--network', 'host', ...OPTIONS, ...mounts, '--workdir', '/suite', '--entrypoint', 'node'];
      const ended = docker('run', ...run, TAG, join(packages, 'vitest/vitest.mjs'), 'run', ...suite);
      expect(ended.status, ended.stdout + ended.stderr).toBe(0);
      expect(ended.stdout).toMatch(/Tests .*\d+ passed/);
    });
  },
);
