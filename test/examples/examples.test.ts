import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { validateAgainst } from '#core/agents/schema-validation.ts';
import { parseConfig } from '#core/config.ts';
import { bootstrap } from '#core/workspaces/bootstrap.ts';
import { EXAMPLES_FOLDER, exampleNames, publishExamples } from '#local/examples.ts';
import { type LocalServer, startLocalServer } from '#local/server.ts';

const read = (...path: string[]): string => readFileSync(join(EXAMPLES_FOLDER, ...path), 'utf8');
const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs an example's program as its author would, without the platform. */
function run(example: string, input: string): { status: number | null; answer: Record<string, unknown> } {
  const [program, file] = JSON.parse(read(example, 'agent.json')).runtime.command.split(' ');
  const path = program === 'node' ? process.execPath : program;
  const { status, stdout } = spawnSync(path, [file], { cwd: join(EXAMPLES_FOLDER, example), input, encoding: 'utf8' });
  return { status, answer: JSON.parse(stdout) };
}

describe.skipIf(!hasPython)('csv-insights (skipped without python3 on this machine)', () => {
  test.each([
    ['[]', 'must be the text of a table'],
    ['not JSON', 'not JSON'],
    ['{"csv": "only,a,header"}', 'at least one row'],
  ])('refuses %s', (input, message) => {
    const { status, answer } = run('csv-insights', input);
    expect(status).toBe(1);
    expect(answer.error).toContain(message);
  });

  test.each([
    ['semicolons', 'a;b\n1;x\n2;y\n', { type: 'integer', distinct: 2 }],
    ['a byte order mark', '\ufeffa,b\n1,x\n', { name: 'a' }],
    ['a wide cell', `a,b\n"${'x'.repeat(200_000)}",1\n`, { type: 'text' }],
    ['an empty column', 'a,b\n,1\n,2\n', { type: 'empty', missing: 2 }],
    ['dates', 'a,b\n2026-01-31,1\n2026-02-01,2\n', { type: 'date', min: '2026-01-31' }],
  ])('reads %s', (_, csv, column) => {
    const { status, answer } = run('csv-insights', JSON.stringify({ csv }));
    expect(status).toBe(0);
    expect((answer.columns as object[])[0]).toMatchObject(column);
  });
});

describe('document-inventory', () => {
  test.each(['{}', '[]', 'not JSON', '{"files": []}'])('refuses %s', (input) => {
    expect(run('document-inventory', input)).toMatchObject({ status: 1, answer: { error: expect.any(String) } });
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
    const isPython = read(name, 'agent.json').includes('python3');
    const { kind } = await server.deps.sandbox.status();
    skip(isPython && !hasPython, 'there is no python3 on this machine');
    skip(kind === 'none', 'no sandbox works on this machine');
    // What the platform says without a registry is the e2e suite's matter.
    skip(
      name === 'html-to-markdown' && lines.some((line) => line.includes('not published')),
      'no npm registry in reach',
    );
    const response = await fetch(`${server.url}/main/${name}/latest/run`, { method: 'POST', ...sampleOf(name) });
    const { data, warnings } = (await response.json()) as { data: Record<string, unknown>; warnings?: object[] };
    expect(response.status).toBe(200);
    const { output } = JSON.parse(read(name, 'schema.json'));
    expect(validateAgainst(output, data)).toEqual([]);
    expect(warnings).toBeUndefined();
    const shown = /```json\n([\s\S]*?)```/.exec(read(name, 'README.md'))![1]!;
    expect(data).toMatchObject(JSON.parse(`{${shown}}`));
  });

  function sampleOf(name: string): { headers: Record<string, string>; body: string | FormData } {
    const headers = { authorization: `Bearer ${key}` };
    if (existsSync(join(EXAMPLES_FOLDER, name, 'sample-input.json'))) {
      return { headers: { ...headers, 'content-type': 'application/json' }, body: read(name, 'sample-input.json') };
    }
    const form = new FormData();
    for (const file of readdirSync(join(EXAMPLES_FOLDER, name, 'sample-files')).sort()) {
      form.append('files[]', new Blob([read(name, 'sample-files', file)]), file);
    }
    return { headers, body: form };
  }
});
