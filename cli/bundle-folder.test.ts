import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { unzipSync } from 'fflate';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readAgentFolder } from './bundle-folder.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agent-folder-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

const tool = (more: object = {}) => JSON.stringify({ name: 'a-tool', type: 'tool', description: 'x', ...more });

describe('readAgentFolder', () => {
  test('reads manifest, schemas and prompt', async () => {
    write({
      'agent.json': JSON.stringify({ name: 'greeter', type: 'prompt' }),
      'schema.json': JSON.stringify({ input: { type: 'object' }, output: { type: 'string' } }),
      'prompt.md': 'Greet {{name}}.',
    });
    expect(await readAgentFolder(folder)).toEqual({
      body: {
        name: 'greeter',
        type: 'prompt',
        input_schema: { type: 'object' },
        output_schema: { type: 'string' },
        prompt: 'Greet {{name}}.',
      },
    });
  });

  test('packs the code and what installs it, and nothing else', async () => {
    write({
      'agent.json': tool(),
      'main.py': 'print(1)',
      'src/util.py': '',
      'requirements.txt': 'six',
      'README.md': 'x',
      'tests/test_main.py': '',
      'src/__pycache__/util.pyc': '',
      'node_modules/a/index.js': '',
      '.env': 'API_TOKEN=made-up',
      'package-lock.json': '{}',
    });
    symlinkSync('/etc/passwd', join(folder, 'link.py'));
    const { bundle } = await readAgentFolder(folder);
    expect(Object.keys(unzipSync(bundle!)).sort()).toEqual([
      'main.py',
      'package-lock.json',
      'requirements.txt',
      'src/util.py',
    ]);
  });

  test('the manifest excludes more, and includes what is left out by default', async () => {
    write({
      'agent.json': tool({ bundle: { include: ['docs/prompt.txt'], exclude: ['*.csv', 'requirements.txt'] } }),
      'main.py': '',
      'big.csv': '',
      'docs/prompt.txt': '',
      'docs/notes.txt': '',
      'requirements.txt': 'six',
    });
    const { body, bundle } = await readAgentFolder(folder);
    expect(Object.keys(unzipSync(bundle!)).sort()).toEqual(['docs/prompt.txt', 'main.py', 'requirements.txt']);
    expect(body).not.toHaveProperty('bundle');
  });

  test('the same files make the same bytes', async () => {
    write({ 'agent.json': tool(), 'b.py': '1', 'a.py': '2' });
    const first = await readAgentFolder(folder);
    write({ 'a.py': '2' });
    expect((await readAgentFolder(folder)).bundle).toEqual(first.bundle);
  });

  test.each([
    ['no manifest', {}, 'agent.json is missing'],
    ['broken JSON', { 'agent.json': '{"name"' }, 'agent.json is not valid JSON'],
    ['an array', { 'agent.json': '[]' }, 'agent.json must hold a JSON object'],
    ['a broken schema file', { 'agent.json': tool(), 'schema.json': 'x' }, 'schema.json is not valid JSON'],
    ['no code', { 'agent.json': tool(), 'README.md': 'x' }, 'holds no code'],
  ])('refuses %s', async (_, files, message) => {
    write(files);
    await expect(readAgentFolder(folder)).rejects.toThrow(message);
  });
});
