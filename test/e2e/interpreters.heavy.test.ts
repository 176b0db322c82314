import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { fetchPythonRelease } from '../../scripts/fetch-test-tools.ts';
import { expectOk } from './expect.ts';

/** Versions of Python and Node that this machine does not have, and programs of other tools. */
let mirror: Server;
let target: LocalTarget;
const release = fetchPythonRelease();
/** Sandboxes reach no server of this machine by its loopback address. */
const address = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')!.address;
const PATIENCE = { timeout: 90_000 };
const [major, minor, patch] = release.version.split('.').map(Number);

beforeAll(async () => {
  const archive = readFileSync(release.archive);
  mirror = createServer(({ url }, response) => {
    const { port } = mirror.address() as AddressInfo;
    if (url === '/python.tar.gz') return response.end(archive);
    const arch = process.arch === 'x64' ? 'x86_64' : 'aarch64';
    const build = {
      name: 'cpython',
      arch: { family: arch, variant: null },
      os: 'linux',
      libc: 'gnu',
      major,
      minor,
      patch,
      prerelease: '',
      url: `http://${address}:${port}/python.tar.gz`,
      sha256: createHash('sha256').update(archive).digest('hex'),
      variant: null,
      build: '20260610',
    };
    return response.end(JSON.stringify({ [`cpython-${release.version}-linux-${arch}-gnu`]: build }));
  }).listen(0, address);
  await new Promise((resolve) => mirror.once('listening', resolve));
  const { port } = mirror.address() as AddressInfo;
  target = await startLocalTarget({ PLATFORM_PYTHON_DOWNLOADS: `http://${address}:${port}/downloads.json` });
});
afterAll(async () => {
  await target?.close();
  mirror?.close();
});

async function publish(name: string, files: Readonly<Record<string, string>>, manifest = {}) {
  const client = clientOf(target);
  const { agent } = await publishCode(client, name, files, manifest);
  const version = () => client.getAgent({ params: { id: agent.id } });
  await vi.waitFor(async () => expect((await version()).environment_status).not.toBe('building'), PATIENCE);
  expect((await version()).environment_error).toBeNull();
  return expectOk(await request(target, 'POST', `/acme/${name}/latest/run`, { key: target.key, json: {} })).data;
}

test('a program gets the Python that it asks for, with its packages', { timeout: 180_000 }, async () => {
  const program = `
import json, subprocess, sys
import agent_platform, six
isolated = subprocess.run([sys.executable, '-I', '-c', 'import agent_platform, six; print(six.__version__)'], capture_output=True, text=True)
empty = subprocess.run(['env', '-i', sys.executable, '-c', 'import six, ssl, sqlite3; print(six.__version__)'], capture_output=True, text=True)
print(json.dumps([sys.version.split()[0], sys.prefix, six.__version__, isolated.stdout + isolated.stderr, empty.stdout + empty.stderr]))
`;
  const files = { 'main.py': program, 'requirements.txt': 'six==1.17.0\n' };
  const environment = { python_version: `${major}.${minor}` };
  expect(await publish('new-python', files, { environment })).toEqual([
    release.version,
    '/layer/venv',
    '1.17.0',
    '1.17.0\n',
    '1.17.0\n',
  ]);
  const bare = 'import json, platform, sys\nprint(json.dumps([platform.python_version(), sys.prefix]))';
  expect(await publish('bare-python', { 'main.py': bare }, { environment })).toEqual([
    release.version,
    '/layer/interpreters/python',
  ]);
});

test('a program gets the Node.js that it asks for, with its packages', { timeout: 180_000 }, async () => {
  const code = `import isNumber from 'is-number'; const version = process.versions.node;
console.log(JSON.stringify([version.split('.')[0], isNumber(1)]));`;
  const packageJson = JSON.stringify({ type: 'module', dependencies: { 'is-number': '7.0.0' } });
  const files = { 'main.js': code, 'package.json': packageJson };
  const manifest = { environment: { node_version: '20' } };
  expect(await publish('old-node', files, manifest)).toEqual(['20', true]);
});

test('a version that does not exist is named with what its package says', { timeout: 120_000 }, async () => {
  const client = clientOf(target);
  const { agent } = await publishCode(client, 'no-node', { 'main.js': '' }, { environment: { node_version: '20.99' } });
  const version = () => client.getAgent({ params: { id: agent.id } });
  await vi.waitFor(async () => expect((await version()).environment_status).toBe('failed'), PATIENCE);
  expect((await version()).environment_error).toContain('No matching version found for node-linux-');
});

test('the lock file of Yarn 4 decides what is installed', { timeout: 120_000 }, async () => {
  const lock = `# This file is generated by running "yarn install" inside your project.
__metadata:
  version: 8
  cacheKey: 10c0

"is-number@npm:^6.0.0":
  version: 6.0.0
  resolution: "is-number@npm:6.0.0"
  languageName: node
  linkType: hard

"locked@workspace:.":
  version: 0.0.0-use.local
  resolution: "locked@workspace:."
  dependencies:
    is-number: "npm:^6.0.0"
  languageName: unknown
  linkType: soft
`;
  const files = {
    'main.js': `console.log(JSON.stringify(require('is-number/package.json').version))`,
    'package.json': JSON.stringify({ name: 'locked', dependencies: { 'is-number': '^6.0.0' } }),
    'yarn.lock': lock,
  };
  expect(await publish('yarn-4', files)).toBe('6.0.0');
});

test.concurrent.each([
  [
    'bun',
    'bun run main.ts',
    `enum Kind { Fast = 'bun' }\nconsole.log(JSON.stringify([Kind.Fast, typeof Bun]));`,
    ['bun', 'object'],
  ],
  [
    'deno',
    'deno run --allow-read main.ts',
    `enum Kind { Safe = 'deno' }\nconsole.log(JSON.stringify([Kind.Safe, typeof Deno]));`,
    ['deno', 'object'],
  ],
])(
  'a program of %s runs, whose package is a dependency',
  { timeout: 180_000 },
  async (name, run_command, code, expected) => {
    const versions: Record<string, string> = { bun: '1.3.0', deno: '2.2.0' };
    const files = { 'main.ts': code, 'package.json': JSON.stringify({ dependencies: { [name]: versions[name] } }) };
    expect(await publish(`with-${name}`, files, { run_command })).toEqual(expected);
  },
);
