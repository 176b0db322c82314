import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { commandLine, type Settings, tempFolder } from './command-line.ts';
import { PROJECTS } from './framework-projects.ts';

function projectFolder(framework: string, more: Readonly<Record<string, string>> = {}): string {
  const folder = join(tempFolder(), 'my-agent');
  for (const [path, content] of Object.entries({ ...PROJECTS[framework]!.files, ...more })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

const initFrom = (cwd: string, argv: readonly string[] = [], settings: Settings = {}) =>
  commandLine(['init', '--from', '.', ...argv], { cwd, ...settings });

test('an existing project becomes an agent in its own folder, and the command says what it found and wrote', async () => {
  const cwd = projectFolder('langgraph');
  const made = await initFrom(cwd, [], { columns: 100 });
  expect(made.stderr).toBe('Next: `platform publish`, `platform run my-agent sample-input.json`.\n');
  expect(made.stdout.split('\n')).toEqual([
    'Found LangGraph: requirements.txt:1, graph.py:3. Entry point: graph.py:graph.',
    'Created agent.json, platform_main.py, sample-input.json, tests/fixture-sample.json.',
    '',
  ]);
  const validated = JSON.parse(readFileSync(join(cwd, 'agent.json'), 'utf8'));
  expect(validated).toMatchObject({
    name: 'my-agent',
    required_secrets: [],
    runtime: { command: 'python3 platform_main.py' },
  });
});

test('a second time nothing is overwritten, and what is missing is written again', async () => {
  const cwd = projectFolder('langgraph', { 'agent.json': '{"mine": true}' });
  const first = await initFrom(cwd);
  expect(first.status, first.stderr).toBe(0);
  expect(first.json).toMatchObject({ kept: ['agent.json'], framework: 'langgraph', entry: 'graph.py:graph' });
  expect(readFileSync(join(cwd, 'agent.json'), 'utf8')).toBe('{"mine": true}');
  rmSync(join(cwd, 'platform_main.py'));
  const second = await initFrom(cwd);
  expect(second.json).toMatchObject({
    files: ['platform_main.py'],
    kept: ['agent.json', 'sample-input.json', 'tests/fixture-sample.json'],
  });
  expect(second.stderr).toContain('Left unchanged: agent.json, sample-input.json, tests/fixture-sample.json.');
  expect((await initFrom(cwd, [], { columns: 100 })).stdout).toContain('Nothing was created: all files exist.');
});

test('links are not written through, wherever they lead', async () => {
  const cwd = projectFolder('langgraph');
  const outside = tempFolder();
  symlinkSync(outside, join(cwd, 'tests'));
  const refused = await initFrom(cwd);
  expect(refused.status).toBe(5);
  expect(refused.stderr).toContain('tests is not a folder. Nothing was written.');
  expect(existsSync(join(cwd, 'agent.json'))).toBe(false);
  rmSync(join(cwd, 'tests'));
  symlinkSync(join(outside, 'nowhere.json'), join(cwd, 'agent.json'));
  expect((await initFrom(cwd)).json.kept).toEqual(['agent.json']);
  expect(readdirSync(outside)).toEqual([]);
});

test.each([
  ['an unknown framework', ['--framework', 'flusk'], 'Unknown framework "flusk"'],
  ['a framework that is not there', ['--framework', 'flask'], 'neither declares nor imports Flask'],
  ['an entry that is not there', ['--entry', 'none.py:x'], 'has no file none.py'],
  ['a name that no agent may have', ['--name', 'My Agent'], 'Invalid agent name "My Agent"'],
  ['a template', ['--template', 'prompt'], '--from does not go with prompt'],
  ['a folder to create', ['greeter'], '--from does not go with greeter'],
])('%s is refused, and nothing is written', async (_, argv, words) => {
  const cwd = projectFolder('langgraph');
  const before = readdirSync(cwd);
  const refused = await initFrom(cwd, argv);
  expect(refused.status).toBe(5);
  expect(JSON.parse(refused.stderr).error.message).toContain(words);
  expect(readdirSync(cwd)).toEqual(before);
});

test.each(['framework', 'entry', 'name'])('--%s without --from is refused', async (flag) => {
  const refused = await commandLine(['init', `--${flag}`, 'x'], { cwd: tempFolder() });
  expect(refused.status).toBe(5);
  expect(refused.stderr).toContain(`--${flag} needs --from`);
});

test('a program that listens for an app says which port is in use', async () => {
  const cwd = projectFolder('hono', { 'src/index.ts': 'const app = new Hono();\nexport default app;\n// "hono"\n' });
  expect((await initFrom(cwd, ['--framework', 'hono'])).status).toBe(0);
  writeFileSync(join(cwd, 'src/index.ts'), 'export default { fetch: () => new Response("hello") };\n');
  const other = createServer().listen(0, '0.0.0.0');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const start = () =>
    spawn(process.execPath, ['--no-warnings', 'platform-main.mts'], { cwd, env: { PORT: String(port) } });
  const refused = start();
  const [words, [status]] = await Promise.all([text(refused.stderr), once(refused, 'exit')]);
  expect(status).toBe(1);
  expect(words).toContain(`The app cannot listen on port ${port}: listen EADDRINUSE`);
  other.close();
  await once(other, 'close');
  const app = start();
  await expect.poll(async () => (await fetch(`http://127.0.0.1:${port}`).catch(() => undefined))?.text()).toBe('hello');
  app.kill();
});
