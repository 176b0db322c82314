import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { unzipSync } from 'fflate';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { inspectBundle } from '#core/manifest/bundle/bundle.ts';
import { readAgentFolder } from './agent-folder.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agent-folder-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(files: Record<string, string | Uint8Array>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

const tool = (more: object = {}) => JSON.stringify({ name: 'a-tool', type: 'tool', description: 'x', ...more });

async function packed(): Promise<string[]> {
  const { bundle } = await readAgentFolder(folder);
  return Object.keys(unzipSync(bundle!));
}

describe('the body', () => {
  test('has the manifest, the schemas and the prompt', async () => {
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

  test('of a loop has its prompt and no code', async () => {
    write({ 'agent.json': tool({ type: 'agent', loop: { max_turns: 3 } }), 'prompt.md': 'Search.', 'main.py': '' });
    expect(await readAgentFolder(folder)).toEqual({
      body: { ...JSON.parse(tool()), type: 'agent', loop: { max_turns: 3 }, prompt: 'Search.' },
    });
  });

  test('of a loop with "bundle" has that, and code that may be packages alone', async () => {
    const manifest = { type: 'agent', loop: {}, bundle: { exclude: ['notes'] } };
    write({
      'agent.json': tool(manifest),
      'prompt.md': 'Search.',
      'schema.json': '{"input": {}}',
      'package.json': '{}',
      'package-lock.json': '{}',
      'requirements.txt': 'six',
      'notes/a.txt': '',
    });
    const { body } = await readAgentFolder(folder);
    expect(body).toEqual({ ...JSON.parse(tool(manifest)), prompt: 'Search.', input_schema: {} });
    expect((await packed()).toSorted()).toEqual(['package-lock.json', 'package.json', 'requirements.txt']);
  });

  test('of a skill has its text without front matter, and the files beside it', async () => {
    write({
      'SKILL.md': '---\nname: tone\ndescription: How we write.\n---\n\nBe brief.\n',
      'scripts/count.py': 'print(1)',
      'words.md': 'ü',
      'README.md': 'for people',
      '.notes': 'hidden',
      'agent.json': '{"type":"tool"}',
    });
    expect(await readAgentFolder(folder)).toEqual({
      body: {
        name: 'tone',
        type: 'skill',
        description: 'How we write.',
        prompt: 'Be brief.',
        skill_files: [
          { path: 'scripts/count.py', content: 'print(1)', size: 8 },
          { path: 'words.md', content: 'ü', size: 2 },
        ],
        allow_local_download: true,
      },
    });
  });

  test('of a skill has files that are not text as base64', async () => {
    const font = randomBytes(100_000);
    write({
      'SKILL.md': '---\nname: tone\ndescription: x\n---\nx',
      'a.png': font,
      'nul.md': 'a\0b',
      'crlf.md': 'a\r\n',
    });
    symlinkSync('/etc/passwd', join(folder, 'link.md'));
    expect((await readAgentFolder(folder)).body.skill_files).toEqual([
      { path: 'a.png', content: font.toString('base64'), size: 100_000, encoding: 'base64' },
      { path: 'crlf.md', content: 'a\n', size: 2 },
      { path: 'nul.md', content: 'YQBi', size: 3, encoding: 'base64' },
    ]);
  });

  test.each<[string, Record<string, string | Uint8Array>, string]>([
    ['a wrong name', { 'SKILL.md': '---\nname: A\ndescription: x\n---\nx' }, 'SKILL.md name must be lower-case'],
    ['no text', { 'SKILL.md': '---\nname: a\ndescription: x\n---\n' }, 'SKILL.md must have instructions after'],
    ['no text in UTF-8', { 'SKILL.md': Uint8Array.of(0x89, 0x50, 0xff) }, 'SKILL.md is not text in UTF-8'],
    ['201 files', Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`${n}.md`, 'x'])), 'must be at most 200'],
    ['8 MB and a byte', { 'a.bin': new Uint8Array(8_000_001) }, 'must have at most 8000000 bytes in total'],
  ])('of a skill with %s is refused', async (_, files, message) => {
    write({ 'SKILL.md': '---\nname: tone\ndescription: x\n---\nx', ...files });
    await expect(readAgentFolder(folder)).rejects.toThrow(message);
  });

  test('of a program has neither the bundle patterns nor prompt.md, which the code may read', async () => {
    write({ 'agent.json': tool({ bundle: { exclude: ['x'] } }), 'main.py': '', 'prompt.md': 'Hi' });
    const { body } = await readAgentFolder(folder);
    expect(body).toEqual(JSON.parse(tool()));
    expect(await packed()).toEqual(['main.py', 'prompt.md']);
  });
});

describe('the bundle', () => {
  test('holds only the code and the files that install it', async () => {
    write({
      'agent.json': tool(),
      'main.py': 'print(1)',
      'src/util.py': '',
      'src/test_util.py': '',
      'requirements.txt': 'six',
      'pyproject.toml': '[project]',
      'README.md': 'x',
      'tests/fixture-1.json': '',
      'evals/first.yaml': '',
      'evals/checks/short.py': '',
      'src/__pycache__/util.pyc': '',
      'node_modules/a/index.js': '',
      'venv/lib/six.py': '',
      '.env': 'API_TOKEN=made-up',
      '.github/workflows/ci.yml': '',
      'old.zip': '',
    });
    symlinkSync('/etc/passwd', join(folder, 'link.py'));
    symlinkSync(tmpdir(), join(folder, 'linked-folder'));
    expect(await packed()).toEqual(['main.py', 'pyproject.toml', 'requirements.txt', 'src/util.py']);
  });

  test.each([
    [
      'beside a script for Node',
      { 'src/index.mjs': '' },
      ['package-lock.json', 'package.json', 'pnpm-lock.yaml', 'src/index.mjs', 'yarn.lock'],
    ],
    ['not beside Python alone', { 'main.py': '' }, ['main.py']],
  ])('holds package.json and its lock files %s', async (_, code, expected) => {
    const locks = { 'package-lock.json': '{}', 'pnpm-lock.yaml': '', 'yarn.lock': '' };
    write({ 'agent.json': tool(), 'package.json': '{}', ...locks, ...code });
    expect(await packed()).toEqual(expected);
  });

  test.each([
    ['a path', ['docs/prompt.txt'], [], ['big.csv', 'data/a.csv', 'docs/prompt.txt', 'main.py']],
    ['a name in any folder', [], ['*.csv'], ['main.py']],
    ['a folder', [], ['data/'], ['big.csv', 'main.py']],
    ['a path with wildcards', [], ['./**/a.*'], ['big.csv', 'main.py']],
    ['what both fit', ['data'], ['*.csv'], ['data/a.csv', 'main.py']],
  ])('follows the manifest: %s', async (_, include, exclude, expected) => {
    write({ 'agent.json': tool({ bundle: { include, exclude } }), 'main.py': '' });
    write({ 'big.csv': '', 'data/a.csv': '', 'docs/prompt.txt': '', 'docs/notes.txt': '' });
    expect(await packed()).toEqual(expected);
  });

  test('is the same bytes for the same files', async () => {
    write({ 'agent.json': tool(), 'b.py': '1', 'a.py': '2' });
    const first = await readAgentFolder(folder);
    rmSync(join(folder, 'b.py'));
    write({ 'b.py': '1' });
    expect((await readAgentFolder(folder)).bundle).toEqual(first.bundle);
  });

  test('is accepted by the platform and keeps executable bits', async () => {
    write({ 'agent.json': tool(), 'run.sh': '#!/bin/sh\n', 'größe.py': 'print(1)\n' });
    chmodSync(join(folder, 'run.sh'), 0o755);
    const { bundle } = await readAgentFolder(folder);
    expect((await inspectBundle(bundle!)).files).toEqual([
      { path: 'größe.py', size: 9, executable: false },
      { path: 'run.sh', size: 10, executable: true },
    ]);
  });

  test('that is too large names the largest files', async () => {
    write({ 'agent.json': tool(), 'main.py': '' });
    writeFileSync(join(folder, 'noise.bin'), randomBytes(26 * 1024 * 1024));
    await expect(readAgentFolder(folder)).rejects.toThrow(
      /as a zip, has 26\.\d MB, but at most 25\.0 MB .* bundle\.exclude .* noise\.bin \(26\.0 MB\)/,
    );
  });
});

test.each([
  ['no manifest', {}, 'agent.json is missing'],
  ['broken JSON', { 'agent.json': '{"name"' }, 'agent.json is not valid JSON'],
  ['an array', { 'agent.json': '[]' }, 'agent.json must hold a JSON object'],
  ['a broken schema file', { 'agent.json': tool(), 'schema.json': 'x' }, 'schema.json is not valid JSON'],
  ['a bare schema', { 'agent.json': tool(), 'schema.json': '{"type":"object"}' }, 'neither "input" nor "output"'],
  ['a folder for a file', { 'agent.json/x': '' }, 'agent.json cannot be read: EISDIR'],
  ['no code', { 'agent.json': tool(), 'README.md': 'x' }, 'holds no code'],
  [
    'bad patterns',
    { 'agent.json': tool({ bundle: { exclude: '*.csv' } }), 'main.py': '' },
    'bundle.exclude is "*.csv"',
  ],
])('refuses %s', async (_, files, message) => {
  write(files);
  await expect(readAgentFolder(folder)).rejects.toThrow(message);
});

describe('what git ignores', () => {
  test('is left out unless bundle.include names it, also by files above and below', async () => {
    write({
      '.git/HEAD': '',
      '.gitignore': 'data/\n*.log\n',
      'agents/one/agent.json': tool({ bundle: { include: ['data\\kept.csv'] } }),
      'agents/one/.gitignore': 'secret.py\n!loud.log\n',
      'agents/one/main.py': '',
      'agents/one/secret.py': '',
      'agents/one/loud.log': '',
      'agents/one/quiet.log': '',
      'agents/one/data/kept.csv': '',
      'agents/one/data/left.csv': '',
      'agents/one/lib/.gitignore': 'made.py\n',
      'agents/one/lib/made.py': '',
      'agents/one/lib/own.py': '',
    });
    const { bundle } = await readAgentFolder(join(folder, 'agents/one'));
    expect(Object.keys(unzipSync(bundle!))).toEqual(['data/kept.csv', 'lib/own.py', 'loud.log', 'main.py']);
  });

  test('above a folder without a repository does not count', async () => {
    write({ '.gitignore': '*.py', 'one/agent.json': tool(), 'one/main.py': '' });
    const { bundle } = await readAgentFolder(join(folder, 'one'));
    expect(Object.keys(unzipSync(bundle!))).toEqual(['main.py']);
  });
});

test('a checkout of Windows gives the same bytes: CRLF, no modes; data stays as it is', async () => {
  const files = { 'agent.json': tool(), 'main.py': 'import os\nprint(1)\n', 'run.sh': '#!/bin/sh\npython3 main.py\n' };
  write(files);
  chmodSync(join(folder, 'run.sh'), 0o755);
  const unix = (await readAgentFolder(folder)).bundle!;
  for (const [path, text] of Object.entries(files)) write({ [path]: text.replaceAll('\n', '\r\n') });
  chmodSync(join(folder, 'run.sh'), 0o644);
  expect(Buffer.from((await readAgentFolder(folder)).bundle!).equals(unix)).toBe(true);
  write({ 'table.csv': 'a\r\nb\r\n', 'bytes.txt': Buffer.from([0xff, 13, 10]) });
  const packed = unzipSync((await readAgentFolder(folder)).bundle!);
  expect(Buffer.from(packed['table.csv']!).toString()).toBe('a\r\nb\r\n');
  expect([...packed['bytes.txt']!]).toEqual([0xff, 13, 10]);
});
