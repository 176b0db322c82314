import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  bundleForm,
  clientOf,
  type LocalTarget,
  publishCode,
  request,
  startLocalTarget,
  zipOf,
} from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

/** A compiler that npm finds without a network. */
const COMPILER = {
  'compiler/package.json': JSON.stringify({ name: 'compiler', version: '1.0.0', bin: { compiler: 'compile.js' } }),
  'compiler/compile.js': `#!/usr/bin/env node
const fs = require('node:fs');
fs.mkdirSync('dist', { recursive: true });
fs.writeFileSync('dist/main.js', fs.readFileSync('src/main.txt', 'utf8').replace('PRINT', 'console.log'));
console.log('compiled');`,
};
const packageJson = (more: object) =>
  JSON.stringify({ scripts: { build: 'compiler' }, devDependencies: { compiler: 'file:./compiler' }, ...more });
const PROGRAM = {
  ...COMPILER,
  'package.json': packageJson({ main: './dist/main.js' }),
  'src/main.txt': `PRINT(JSON.stringify({ built: true, modules: require('node:fs').existsSync('/layer/node_modules/compiler') }))`,
};

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_INSTALL_TIMEOUT_SECONDS: '60' });
});
afterAll(() => target?.close());

async function publish(name: string, files: Readonly<Record<string, string>>, manifest = {}) {
  const client = clientOf(target);
  const { agent } = await publishCode(client, name, files, manifest);
  const version = () => client.getAgent({ params: { id: agent.id } });
  await expect.poll(async () => (await version()).environment_status, { timeout: 90_000 }).not.toBe('building');
  const [log] = await client.listAgentLogs({ params: { id: agent.id } });
  return { agent: await version(), log };
}
const run = (name: string) => request(target, 'POST', `/acme/${name}/latest/run`, { key: target.key, json: {} });

test('a program is built with its devDependencies, and only its result is part of a run', {
  timeout: 120_000,
}, async () => {
  const { agent, log } = await publish('built', PROGRAM);
  expect(agent).toMatchObject({ environment_error: null, environment_status: 'ready', entrypoint: 'dist/main.js' });
  expect(log!.stdout).toContain('$ npm run build');
  expect(log!.stdout).toContain('compiled');
  expect(expectOk(await run('built')).data).toEqual({ built: true, modules: false });
  // The same sources in a new version are not built again.
  const { agent: next } = await clientOf(target).createAgent({
    body: { name: 'built', type: 'tool', description: 'x', required_secrets: [], tags: ['again'] },
  });
  const answer = await clientOf(target).uploadBundle({ params: { id: next.id }, body: bundleForm(zipOf(PROGRAM)) });
  expect(answer).toMatchObject({ status: 'active', environment_status: 'ready' });
  expect(expectOk(await run('built')).data).toEqual({ built: true, modules: false });
});

test('commands of the manifest take precedence, and an empty list builds nothing', { timeout: 120_000 }, async () => {
  const files = { ...PROGRAM, 'main.js': `console.log(JSON.stringify(require('./made.json')))`, 'made.json': '"sent"' };
  const { agent } = await publish('commands', files, {
    entrypoint: 'main.js',
    build: ['echo "[1]" > made.json', 'ln -s main.js link.js && mkfifo pipe'],
  });
  expect(agent).toMatchObject({ environment_error: null, build: ['echo "[1]" > made.json', expect.any(String)] });
  expect(expectOk(await run('commands')).data).toEqual([1]);
  await publish('unbuilt', files, { entrypoint: 'main.js', build: [] });
  expect(expectOk(await run('unbuilt')).data).toBe('sent');
});

test('a build that fails names its step, its status and its last lines', { timeout: 120_000 }, async () => {
  const failing = `console.log('src/a.ts(3,1): error TS2304: Cannot find name b.'); process.exit(2);`;
  const { agent } = await publish('failing', { ...PROGRAM, 'compiler/compile.js': `#!/usr/bin/env node\n${failing}` });
  const [first, , ...lines] = agent.environment_error!.split('\n');
  expect(first).toBe(
    'The build failed: the step "npm run build" ended with status 2: src/a.ts(3,1): error TS2304: Cannot find name b.',
  );
  expect(lines.join('\n')).toContain('error TS2304');
  expectError(await run('failing'), 500, 'SANDBOX_ERROR', 'error TS2304');
  const { agent: lost } = await publish('elsewhere', { ...PROGRAM, 'package.json': packageJson({ main: 'lib/x.js' }) });
  expect(lost.environment_error).toContain('The build did not write lib/x.js, which the program starts with.');
});

test('a build cannot leave its folder, reach other hosts, or fill the disk', { timeout: 240_000 }, async () => {
  const attack = async (name: string, build: string, files: Record<string, string> = { 'main.js': 'console.log(1)' }) =>
    (await publish(name, files, { build })).agent.environment_error;
  expect(await attack('link', 'ln -s ../../venv x && ln -s /etc/passwd y')).toMatch(/a link to .*, which leaves it/);
  expect(await attack('deep', 'mkdir a && ln -s ../../node_modules a/b')).toMatch(/a link to .*, which leaves it/);
  expect(
    await attack(
      'home',
      "node -e \"fetch('http://127.0.0.1:22').catch((e) => { console.error('refused'); process.exit(3) })\"",
    ),
  ).toContain('ended with status 3: refused');
  // It has its own limit of processes: the following builds have enough.
  await attack('bomb', ':(){ :|:& };:');
  expect(await attack('cache', 'echo 1 > /layer/x')).toMatch(/ended with status 1: .*(Read-only|Permission|No such)/);
  expect(await attack('over', 'rm -r main.js && mkdir main.js && echo 1 > main.js/x')).toBeNull();
  const over = await request(target, 'POST', '/acme/over/latest/run', { key: target.key, json: {} });
  expectError(over, 500, 'SANDBOX_ERROR', 'is a folder in one of');
});

const hasRegistry =
  spawnSync('npm', ['view', 'esbuild', 'name', '--fetch-timeout=5000', '--fetch-retries=0'], {
    encoding: 'utf8',
  }).stdout.trim() === 'esbuild';

test('TypeScript that Node cannot run is compiled', { timeout: 240_000 }, async ({ skip }) => {
  skip(!hasRegistry, 'no npm registry answers');
  const { agent, log } = await publish('typed', {
    'package.json': '{"type":"module"}',
    'tsconfig.json': `{ "compilerOptions": { "experimentalDecorators": true, "paths": { "@/*": ["./lib/*"] }, } }`,
    'main.ts': `import { Colour, type Shape } from './colour';
import { sized } from '@/sized.js';
import { Box } from './box.ts';
const shape: Shape = { colour: Colour.Green };
console.log(JSON.stringify([shape, sized, new Box(3).size, import.meta.url.endsWith('/agent/main.ts')]));`,
    'colour.ts': `export enum Colour { Red = 1, Green }\nexport interface Shape { colour: Colour }`,
    'lib/sized.ts': `export namespace Sizes { export const big = 7 }\nexport const sized = Sizes.big;`,
    'box.ts': `import { Shape } from './colour.ts';
const inject = (_: object, __: string | undefined, index: number) => { void index; };
export class Box { constructor(@inject readonly size: number, readonly shape?: Shape) {} }`,
  });
  expect(agent).toMatchObject({ environment_error: null, environment_status: 'ready' });
  expect(log!.stdout).toContain('4 files of TypeScript were compiled');
  expect(expectOk(await run('typed')).data).toEqual([{ colour: 2 }, 7, 3, true]);
});
