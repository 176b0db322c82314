import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, startCommandLine, tempFolder } from './command-line.ts';

/** Publishing and then calling programs with dependencies. */

let target: LocalTarget;
let env: Record<string, string>;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  env = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key };
});
afterAll(() => target?.close());
beforeEach((context) => context.skip(!target.interpreters.node, 'no Node in the sandbox'));

/** A retry would find the packages that the first attempt published with npm. */
const SLOW = { timeout: 120_000, retry: 0 };

function agentFolder(name: string, files: Readonly<Record<string, string>>): string {
  const folder = tempFolder();
  const base = { type: 'tool', description: 'Greets', supported_providers: ['any'], required_secrets: [] };
  const manifest = JSON.stringify({ name, ...base, runtime: { command: 'node main.js' } });
  for (const [path, text] of Object.entries({ 'agent.json': manifest, ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

/** npm installs it without a network. */
const withDependency = (greeting: string) => ({
  'main.js': `console.log(JSON.stringify(require('greeter')))`,
  'package.json': JSON.stringify({ name: 'agent', dependencies: { greeter: 'file:./greeter' } }),
  'greeter/package.json': JSON.stringify({ name: 'greeter', version: '1.0.0', main: 'index.js' }),
  'greeter/index.js': `module.exports = { greeting: '${greeting}' }`,
});

/** Delays transactions that set this attribute, as a slow host might. */
function hold(isHeld: (set: { readonly [name: string]: unknown }) => boolean): {
  isReached(): boolean;
  release(): void;
} {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { main } = target.deps;
  const transact = main.transact.bind(main);
  let isReached = false;
  main.transact = async (operations) => {
    if (operations.some((each) => each.op === 'update' && isHeld(each.changes.set ?? {}))) {
      isReached = true;
      await promise;
    }
    return transact(operations);
  };
  const release = () => {
    main.transact = transact;
    resolve();
  };
  onTestFinished(release);
  return { isReached: () => isReached, release };
}

/** Starts a publish and records the answers: `POST /agents 201`. */
function startPublish(folder: string) {
  const answered: string[] = [];
  const started = startCommandLine(['publish', folder], {
    env,
    async fetch(input, init) {
      const response = await fetch(input, init);
      answered.push(`${init?.method} ${new URL(String(input)).pathname} ${response.status}`);
      return response;
    },
  });
  let isEnded = false;
  void started.ended.then(() => (isEnded = true));
  return { ...started, answered, isEnded: () => isEnded };
}

test('a publish says whether something was installed, and nothing of dependencies without any', SLOW, async () => {
  const plain = agentFolder('plain', { 'main.js': 'console.log(1)' });
  const { stderr } = await commandLine(['publish', plain], { env });
  expect(stderr).toMatch(/^uploading \d+ bytes\n/);
  expect(stderr).not.toContain('dependencies');
  const folder = agentFolder('dependent', withDependency('first'));
  const first = await commandLine(['publish', folder], { env });
  expect(first).toMatchObject({ status: 0, stderr: expect.stringContaining('installing dependencies') });
  expect(first.json).toMatchObject({ agent: { version: 'v1', runnable: true }, installed: true });
  const manifest = readFileSync(join(folder, 'agent.json'), 'utf8');
  writeFileSync(join(folder, 'agent.json'), manifest.replace('Greets', 'Greets again'));
  const cached = await commandLine(['publish', folder], { env });
  expect(cached.stderr).not.toContain('installing');
  expect(cached.json).toMatchObject({ agent: { version: 'v2', runnable: true }, installed: false });
});

test('a publish ends when the new version is called', SLOW, async () => {
  const folder = agentFolder('waited-for', withDependency('old'));
  await commandLine(['publish', folder], { env });
  writeFileSync(join(folder, 'greeter/index.js'), `module.exports = { greeting: 'new' }`);
  const held = hold(({ runnable }) => runnable === true);
  const publish = startPublish(folder);
  await expect.poll(held.isReached, { timeout: 60_000 }).toBe(true);
  const before = await commandLine(['run', 'waited-for'], { env, columns: 80 });
  expect(before).toMatchObject({ stdout: expect.stringContaining('old'), stderr: expect.stringContaining('@v1 in') });
  // The upload is answered after ten seconds with the dependencies installed; the version is not called yet.
  const asked = () => publish.answered.filter((line) => /^GET \/agents\/[^/]+ 200$/.test(line));
  await expect.poll(() => asked().length, { timeout: 30_000 }).toBeGreaterThan(1);
  expect(publish.isEnded()).toBe(false);
  held.release();
  expect(await publish.ended).toBe(0);
  expect(publish.written.stderr).toContain('installing dependencies');
  const after = await commandLine(['run', 'waited-for'], { env, columns: 80 });
  expect(after.stdout).toContain('new');
  expect(after.stderr).toMatch(/main\/waited-for@v2 in \d/);
});

test('a publish of what is being installed waits for it, too', SLOW, async () => {
  const folder = agentFolder('twice', withDependency('once'));
  const held = hold(({ install }) => (install as { status?: string } | undefined)?.status === 'ready');
  const first = startPublish(folder);
  await expect.poll(held.isReached, { timeout: 60_000 }).toBe(true);
  const second = startPublish(folder);
  await expect.poll(() => second.written.stderr, { timeout: 20_000 }).toBe('installing dependencies\n');
  expect(second.isEnded()).toBe(false);
  held.release();
  expect(await Promise.all([first.ended, second.ended])).toEqual([0, 0]);
  expect(JSON.parse(second.written.stdout)).toMatchObject({
    unchanged: true,
    agent: { version: 'v1', runnable: true },
  });
});
