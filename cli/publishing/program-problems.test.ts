import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { programProblems } from './program-problems.ts';

const WITH_COMMAND = { runtime: { command: 'start' } };

function problemsOf(files: Record<string, string>, body: object = WITH_COMMAND): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'program-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const bytes = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
  return programProblems({ folder, body: { ...body }, files: bytes });
}

test('an agent without code has no problems', async () => {
  expect(await programProblems({ folder: '/nowhere', body: {} })).toEqual([]);
});

test('a file that the command names and that is not there', async () => {
  const files = { 'main.mjs': '', 'lib/other.sh': '' };
  const missing = async (command: string) => problemsOf(files, { runtime: { command } });
  expect(await missing('node ./main.mjs && bash lib/other.sh')).toEqual([]);
  expect(await missing('node --flag mian.mjs')).toEqual([
    'The command uses mian.mjs, which is not among the published files.',
  ]);
  expect(await problemsOf(files, { entrypoint: 'app.py' })).toEqual([
    'The command uses app.py, which is not among the published files.',
  ]);
  expect(await problemsOf(files, {})).toEqual([expect.stringMatching(/^There is no main file: set runtime\.command/)]);
  expect(await problemsOf({ 'main.js': '' }, {})).toEqual([]);
  // A build may write what is missing.
  const built = {
    'package.json': '{"main":"dist/main.js","scripts":{"build":"tsc"},"devDependencies":{"typescript":"5"}}',
  };
  expect(await problemsOf(built, {})).toEqual([]);
  expect(await problemsOf(built, { run_command: 'node dist/main.js' })).toEqual([]);
  expect(await problemsOf({ ...built, 'main.js': '' }, { build: [], entrypoint: 'dist/main.js' })).toHaveLength(1);
});

describe('JavaScript and TypeScript', () => {
  test.each([
    ['main.mjs', 'const a = 1;\nconst b = ;\n', /^main\.mjs, line 2: SyntaxError: Unexpected token ';'$/],
    ['main.cjs', 'module.exports = {', /^main\.cjs.*SyntaxError/],
    ['main.ts', 'const a: number = 1;\nconst b: number = ;', /^main\.ts, line 2: SyntaxError: Expression expected/],
    ['main.mts', 'export const = 1;', /^main\.mts, line 1: SyntaxError/],
  ])('a syntax error in %s', async (path, text, problem) => {
    const [found, ...others] = await problemsOf({ [path]: text });
    expect(found).toMatch(problem);
    expect(others).toEqual([]);
  });

  test('valid TypeScript has no problems', async () => {
    const text =
      "import type { A } from 'a';\nconst of = <T,>(a: T): T => a;\nexport const one: number = of<number>(1);";
    expect(await problemsOf({ 'main.ts': text, 'main.mts': text, 'main.cts': 'const a: number = 1;' })).toEqual([]);
    // The platform compiles it.
    expect(await problemsOf({ 'main.ts': "import { b } from '@/b';\nexport enum Kind { A }" })).toEqual([]);
  });

  test('a module that is neither declared nor there', async () => {
    const files = {
      'package.json': '{"name": "own", "dependencies": {"zod": "4", "@scope/known": "1"}}',
      'main.mjs': [
        "import fs from 'node:fs';",
        "import { x } from './x.mjs';",
        "import path from 'path/posix';",
        "import z from 'zod/v4';",
        "import known from '@scope/known/part';",
        "import lodash from 'lodash/fp';",
        "// import commented from 'commented';",
        "const late = await import('@scope/other');",
      ].join('\n'),
      'x.mjs': 'export const x = 1;',
      'main.ts': "import type { A } from 'only-types';\nexport type { B } from 'only-types';",
      'old.cjs': "const leftPad = require('left-pad');",
    };
    expect(await problemsOf(files)).toEqual([
      'main.mjs imports lodash, which is not a dependency in package.json.',
      'main.mjs imports @scope/other, which is not a dependency in package.json.',
      'old.cjs imports left-pad, which is not a dependency in package.json.',
    ]);
  });

  test('is not run', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'program-')), 'ran');
    await problemsOf({
      'main.mjs': `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(file)}, '')`,
    });
    expect(() => execFileSync('test', ['-e', file])).toThrow();
  });
});

const hasPython = spawnSync('python3', ['-V']).status === 0;

describe.skipIf(!hasPython)('Python (skipped where there is none)', () => {
  test('a syntax error', async () => {
    expect(await problemsOf({ 'main.py': 'import os\nprint("a"\n' })).toEqual([
      expect.stringMatching(/^main\.py, line 2: SyntaxError: /),
    ]);
  });

  test('a module that is neither declared nor there', async () => {
    const files = {
      'requirements.txt': 'Pillow==11.0\nscikit_learn>=1\nrequests[socks]\n',
      'main.py': [
        'import json, os.path',
        'import PIL.Image',
        'from sklearn import svm',
        'import requests',
        'from helpers import one',
        'from . import beside',
        'try:\n    import orjson\nexcept ImportError:\n    orjson = None',
        'import pandas as pd',
      ].join('\n'),
      'helpers/__init__.py': 'one = 1',
    };
    expect(await problemsOf(files)).toEqual(['main.py imports pandas, which no declared dependency seems to provide.']);
  });
});
