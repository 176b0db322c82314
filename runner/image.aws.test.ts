import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { python, ran, sandboxConformance, specOf } from '#test/conformance/sandbox.ts';
import { reuseConformance } from '#test/conformance/sandbox-reuse.ts';
import { jobFor, RunnerSandbox, serveBlobs, WRITABLE } from '#test/helpers/runner.ts';
import { INSTANCE_TOKEN, startServicePlatform, TASK_ID } from '#test/helpers/service-platform.ts';
import { zip } from '#test/helpers/zip.ts';
import { buildRunner, RUNNER_CONTEXT } from '../scripts/build-runner.ts';
import { RunnerSession, runnerHealth } from './server/client.ts';

/**
 * Tests the image as Fargate would run it. It needs a Docker engine that can pull the base images of the Dockerfile, or
 * other ones: `RUNNER_IMAGE_ARGS="NODE_IMAGE=… PYTHON_IMAGE=… PACKAGES="`.
 */
const TAG = `platform-runner-test-${process.pid}`;
/** Same as the task definition except for the volumes: a task has its own disk, while this machine's is shared. */
const VOLUMES = {
  '/home/user': 'mode=755,uid=1000,gid=1000',
  '/layer': 'mode=755,uid=1000,gid=1000',
  '/tmp': 'mode=1777',
};
const AS_ON_FARGATE = [
  ...['--read-only', '--cap-drop', 'ALL', '--user', '1000:1000'],
  ...Object.entries(VOLUMES).flatMap(([at, options]) => ['--tmpfs', `${at}:exec,${options}`]),
];

const docker = (...args: string[]) => spawnSync('docker', args, { encoding: 'utf8', timeout: 600_000 });

async function buildImage(): Promise<string | undefined> {
  const engine = docker('info', '--format', '{{.ServerVersion}}');
  if (engine.error || engine.status !== 0) return 'no Docker engine answers';
  await buildRunner();
  const args = (process.env.RUNNER_IMAGE_ARGS ?? '').split(' ').filter(Boolean);
  const built = docker('build', '--tag', TAG, ...args.flatMap((arg) => ['--build-arg', arg]), RUNNER_CONTEXT);
  if (built.status === 0) return undefined;
  if (args.length > 0) throw new Error(built.stderr);
  return `the image cannot be built here: ${built.stderr.trim().split('\n').at(-1)}`;
}

const problem = await buildImage();

describe.skipIf(problem !== undefined)(
  `the image of a task${problem ? ` (not tried: ${problem})` : ''}`,
  {
    timeout: 120_000,
  },
  () => {
    const root = mkdtempSync(join(tmpdir(), 'runner-image-test-'));
    const blobs = new FolderBlobs(join(root, 'blobs'));
    let links: Awaited<ReturnType<typeof serveBlobs>>;
    /** Address of this machine as seen from containers. */
    let here: string;
    beforeAll(async () => {
      const { id, kill } = await start();
      here = docker('inspect', '--format', '{{.NetworkSettings.Gateway}}', id).stdout.trim();
      links = await serveBlobs(blobs, here);
      await kill();
    });
    afterAll(() => {
      links.close();
      docker('rmi', '--force', TAG);
      rmSync(root, { recursive: true });
    });

    const start = async (...more: string[]) => {
      const container = await run(...more);
      await vi.waitFor(() => runnerHealth({ baseUrl: container.url }, 2_000), { timeout: 60_000, interval: 50 });
      return container;
    };

    const run = async (...more: string[]) => {
      const { stdout, stderr } = docker('run', '--detach', '--rm', ...AS_ON_FARGATE, ...more, TAG);
      const id = stdout.trim();
      const { stdout: address } = docker('inspect', '--format', '{{.NetworkSettings.IPAddress}}', id);
      if (!address.trim()) throw new Error(stderr);
      const url = `http://${address.trim()}:8080`;
      const kill = async () => void docker('rm', '--force', '--volumes', id);
      return { url, kill, id };
    };

    sandboxConformance(async () => ({ sandbox: new RunnerSandbox((key) => links.linkTo(key), start), blobs }), {
      isContainer: true,
    });

    const harness = async () => ({
      async start() {
        const { url, kill, id } = await start();
        const waiting = once(spawn('docker', ['wait', id]).stdout, 'data');
        return { url, kill, ended: waiting.then(([code]) => Number(code)) };
      },
      ...{ blobs, linkTo: (key: string) => links.linkTo(key), writable: WRITABLE },
    });
    reuseConformance(harness, { isContainer: true });

    test('installs a layer that another task runs with', async () => {
      const wheel = zip([
        { name: 'here.py', content: 'text = "from a wheel"\n' },
        { name: 'here-1.0.dist-info/METADATA', content: 'Metadata-Version: 2.1\nName: here\nVersion: 1.0\n' },
        { name: 'here-1.0.dist-info/WHEEL', content: 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n' },
        { name: 'here-1.0.dist-info/RECORD', content: '' },
      ]);
      const packaged = [
        { name: 'here-1.0-py3-none-any.whl', content: Buffer.from(wheel) },
        { name: 'there/package.json', content: '{"name":"there","version":"1.0.0"}' },
        { name: 'there/index.js', content: 'exports.text = "from npm";' },
      ];
      await blobs.put('bundles/packaged.zip', zip(packaged));
      const sandbox = new RunnerSandbox((key) => links.linkTo(key), start);
      const limits = { ...specOf().limits, memoryBytes: 1024 ** 3, processes: 256 };
      const builder = await sandbox.open(
        specOf({ bundle: 'bundles/packaged.zip', purpose: 'install', egress: 'open', limits }),
      );
      for (const command of [
        'pip install --no-index --target ~/layer/python ./*.whl',
        'cd ~/layer && npm install --offline --no-audit --install-links ~/agent/there',
        'cd ~/layer && tar -czf ~/layer.tar.gz python node_modules',
      ]) {
        const { exit, err } = await ran(builder, command, { timeoutMs: 60_000 });
        expect(exit.exitCode, err).toBe(0);
      }
      await blobs.put('layers/installed.tar.gz', await builder.readFile('layer.tar.gz'));
      await builder.close();
      const session = await sandbox.open(specOf({ bundle: 'bundles/packaged.zip', layer: 'layers/installed.tar.gz' }));
      const { out } = await ran(session, `python3 -c 'import here; print(here.text)'; node -p 'require("there").text'`);
      expect(out).toBe('from a wheel\nfrom npm\n');
      await sandbox.close();
    });

    test('ends when its session does, and when its job ends it', async () => {
      for (const end of ['close', 'job'] as const) {
        const { url, id, kill } = await start();
        const waiting = spawn('docker', ['wait', id]);
        const session = await RunnerSession.open({ baseUrl: url }, jobFor(specOf(), links.linkTo));
        expect((await runnerHealth({ baseUrl: url }, 5_000)).isolation).toBe('container');
        if (end === 'close') await session.close();
        else expect((await ran(session, 'setsid sleep 1000 & kill -9 -1')).exit.reason).toBe('sandbox_lost');
        const [code] = await once(waiting.stdout, 'data');
        expect(String(code)).toBe('0\n');
        await kill();
      }
    });

    test('runs an instance of a service, whose port no app can take', async () => {
      const app = `
const server = require('node:http').createServer((request, response) => {
  if (request.url === '/take') return require('node:net').createServer().listen(8080);
  let read; try { read = require('node:fs').readFileSync('/proc/1/environ', 'latin1'); } catch (error) { read = error.code; }
  response.end(read);
}).listen(process.env.PORT);`;
      await blobs.put('bundles/app', zip([{ name: 'app.js', content: app }]));
      const bundle = { key: 'bundles/app', url: links.linkTo('bundles/app') };
      const platform = await startServicePlatform({ bundle, egress: 'open' }, here);
      const variables = Object.entries(platform.env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
      const { url, id, kill } = await run(...variables);
      await vi.waitFor(() => expect(platform.last()).toMatchObject({ phase: 'ready', instanceId: TASK_ID }), 60_000);
      expect(await (await fetch(url)).text()).toMatch(/^E(ACCES|PERM)$/);
      await fetch(`${url}/take`).catch(() => {});
      const message = expect.stringContaining('Port 8080 belongs to the platform');
      await vi.waitFor(() => expect(platform.last()).toMatchObject({ phase: 'ready', lastEnd: { message } }), 60_000);
      expect(docker('logs', id).stdout).not.toContain(INSTANCE_TOKEN);
      const waiting = spawn('docker', ['wait', id]);
      docker('kill', '--signal', 'TERM', id);
      const [code] = await once(waiting.stdout, 'data');
      expect(String(code)).toBe('0\n');
      platform.close();
      await kill();
    });

    test('keeps the token from the job, and takes no request without it', async () => {
      const { url, kill } = await start();
      const job = jobFor(specOf({ egress: 'open' }), links.linkTo);
      const session = await RunnerSession.open({ baseUrl: url }, job);
      // The program gets only one half of the text, so that its own source does not match.
      const { out } = await python(
        session,
        `import glob, os, urllib.request
wanted, own = bytes.fromhex('${job.token.slice(0, 32)}').hex().encode(), str(os.getpid())
for path in glob.glob('/proc/[0-9]*/*') + glob.glob('/proc/[0-9]*/fd/*') + glob.glob('/tmp/**', recursive=True):
    if f'/proc/{own}/' in path or not os.path.isfile(path): continue
    try: found = wanted[:20] in open(path, 'rb').read(1 << 20)
    except OSError: continue
    if found: print('found', path)
for pid in glob.glob('/proc/[0-9]*'):
    try: open(pid + '/mem', 'r+b') and own not in pid and print('opened', pid, open(pid + '/cmdline').read())
    except OSError: pass
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try: opener.open(urllib.request.Request('http://127.0.0.1:8080/session', method='DELETE'))
except urllib.error.HTTPError as e: print(e.code)
`,
      );
      // Python's own text is on its stdin, which is /proc/<own>/fd/0 and a pipe.
      expect(out).toBe('401\n');
      await kill();
    });
  },
);
