import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { validateAgainst } from '#core/agents/schema-validation.ts';
import { parseConfig } from '#core/config.ts';
import { bootstrap } from '#core/workspaces/bootstrap.ts';
import { EXAMPLES_FOLDER, exampleNames, publishExamples } from '#local/examples.ts';
import { type LocalServer, startLocalServer } from '#local/server.ts';

const NODE_FOLDER = dirname(process.execPath);
const hasPython = spawnSync('python3', ['--version']).status === 0;

const read = (...path: string[]): string => readFileSync(join(EXAMPLES_FOLDER, ...path), 'utf8');
const has = (...path: string[]): boolean => existsSync(join(EXAMPLES_FOLDER, ...path));
const manifestOf = (name: string) => JSON.parse(read(name, 'agent.json'));
const isPython = (name: string): boolean => manifestOf(name).runtime.command.startsWith('python3');
const samplesOf = (name: string): string[] => readdirSync(join(EXAMPLES_FOLDER, name, 'sample-files')).sort();
/** The answer that the README shows. */
const shownBy = (name: string) => JSON.parse(/```json\n([\s\S]*?)\n```/.exec(read(name, 'README.md'))![1]!);

function expectAnswer(name: string, answer: unknown): void {
  const { output } = JSON.parse(read(name, 'schema.json'));
  expect(validateAgainst(output, answer)).toEqual([]);
  expect(answer).toEqual(shownBy(name));
}

describe.each(exampleNames())('%s, as its author runs it', (name) => {
  const schemas = JSON.parse(read(name, 'schema.json'));
  const fixtures = readdirSync(join(EXAMPLES_FOLDER, name, 'tests')).filter((file) => /^fixture-.*\.json$/.test(file));
  const { dependencies } = has(name, 'package.json') ? JSON.parse(read(name, 'package.json')) : {};
  let folder = join(EXAMPLES_FOLDER, name);
  let lacks: string | undefined;

  beforeAll(() => {
    if (isPython(name) && !hasPython) lacks = 'there is no python3 on this machine';
    if (!dependencies) return;
    folder = mkdtempSync(join(tmpdir(), `${name}-`));
    // Not what was installed by hand: the lock must do.
    const filter = (path: string) => basename(path) !== 'node_modules';
    cpSync(join(EXAMPLES_FOLDER, name), folder, { recursive: true, filter });
    const { status } = start('npm ci --no-audit --no-fund --prefer-offline --fetch-retries=0');
    if (status !== 0) lacks = 'no npm registry in reach';
  });
  afterAll(() => {
    if (dependencies) rmSync(folder, { recursive: true, force: true });
  });

  function start(command: string, input = '') {
    const env = { ...process.env, PATH: `${NODE_FOLDER}:${process.env.PATH}`, PYTHONDONTWRITEBYTECODE: '1' };
    return spawnSync('sh', ['-c', command], { cwd: folder, input, env, encoding: 'utf8' });
  }

  function run(input: unknown): unknown {
    const { status, stdout, stderr } = start(manifestOf(name).runtime.command, JSON.stringify(input));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout);
  }

  test('its own tests pass', ({ skip }) => {
    skip(lacks !== undefined, lacks);
    const { status, stdout, stderr } = start(isPython(name) ? 'python3 -m unittest' : 'node --test');
    expect(status, `${stdout}${stderr}`).toBe(0);
  });

  test('its sample has the answer that the README shows', ({ skip }) => {
    skip(lacks !== undefined, lacks);
    if (has(name, 'sample-input.json')) {
      const input = JSON.parse(read(name, 'sample-input.json'));
      expect(validateAgainst(schemas.input, input)).toEqual([]);
      return expectAnswer(name, run(input));
    }
    const files = samplesOf(name).map((file) => ({ path: join('sample-files', file), original_name: file }));
    expectAnswer(name, run({ files }));
  });

  test.for(fixtures)('%s', (file, { skip }) => {
    skip(lacks !== undefined, lacks);
    const { input, expected_output: expected, expected_contains: parts = [] } = JSON.parse(read(name, 'tests', file));
    if (schemas.input) expect(validateAgainst(schemas.input, input)).toEqual([]);
    const answer = run(input);
    if (expected) expect(answer).toEqual(expected);
    for (const part of parts) expect(JSON.stringify(answer)).toContain(part);
  });
});

describe('on the platform', () => {
  let server: LocalServer;
  let key: string;
  let folder: string;
  const lines: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'platform-examples-'));
    server = await startLocalServer(parseConfig({ PLATFORM_DATA: folder, PLATFORM_PORT: '0' }));
    key = (await bootstrap(server.deps))!;
    await publishExamples(server, (line) => lines.push(line));
  });
  afterAll(async () => {
    await server.close(true);
    rmSync(folder, { recursive: true, force: true });
  });

  test('each is published once', async () => {
    const published = exampleNames().map((name) => `publishing examples/${name}`);
    expect(lines.filter((line) => line.startsWith('publishing'))).toEqual(published);
    await publishExamples(server, (line) => lines.push(line));
    expect(lines.filter((line) => line.startsWith('publishing'))).toEqual(published);
  });

  test.for(exampleNames())('%s answers its sample as its README and its schema say', async (name, { skip }) => {
    const { kind } = await server.deps.sandbox.status();
    skip(isPython(name) && !hasPython, 'there is no python3 on this machine');
    skip(kind === 'none', 'no sandbox works on this machine');
    // What the platform says without a registry is the e2e suite's matter.
    skip(
      name === 'html-to-markdown' && lines.some((line) => line.includes('not published')),
      'no npm registry in reach',
    );
    const response = await fetch(`${server.url}/main/${name}/latest/run`, { method: 'POST', ...sampleOf(name) });
    const { data, warnings } = (await response.json()) as { data: Record<string, unknown>; warnings?: object[] };
    expect(response.status).toBe(200);
    expect(warnings).toBeUndefined();
    expectAnswer(name, data);
  });

  function sampleOf(name: string): { headers: Record<string, string>; body: string | FormData } {
    const headers = { authorization: `Bearer ${key}` };
    if (has(name, 'sample-input.json')) {
      return { headers: { ...headers, 'content-type': 'application/json' }, body: read(name, 'sample-input.json') };
    }
    const form = new FormData();
    for (const file of samplesOf(name)) {
      form.append('files[]', new Blob([readFileSync(join(EXAMPLES_FOLDER, name, 'sample-files', file))]), file);
    }
    return { headers, body: form };
  }
});
