import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { expectLinear } from '#test/helpers/linear.ts';
import { scriptOf, startProblem } from './start-problem.ts';

/** Uses the actual messages of the shells and interpreters on this machine. */
const folder = mkdtempSync(join(tmpdir(), 'start-problem-'));
afterAll(() => rmSync(folder, { recursive: true }));
const FILES: Readonly<Record<string, readonly [text: string, mode?: number]>> = {
  'plain.sh': ['#!/bin/sh\necho hi\n'],
  'crlf.sh': ['#!/bin/bash\r\nif true; then\r\necho x\r\nfi\r\n', 0o755],
  'crlf-words.sh': ['ls\r\nnothing\r\n'],
  'env-crlf': ['#!/usr/bin/env python3\r\n', 0o755],
  'old.py': ['#!/usr/bin/python1.5\n', 0o755],
  garbage: ['\u007fELF, cut', 0o755],
  'a.py': ['import json\nprint(1)\n'],
  'a.js': ['const x = 1;\n'],
  'needs.py': ['import no_such_module.part\n'],
  'needs.js': ["require('no-such-package')\n"],
  'needs.mjs': ["import 'no-such-package'\n"],
  'fails.js': ["throw new Error('no module here')\n"],
};
for (const [name, [text, mode]] of Object.entries(FILES)) {
  writeFileSync(join(folder, name), text);
  if (mode) chmodSync(join(folder, name), mode);
}
mkdirSync(join(folder, 'folder'));
const hasPython = spawnSync('python3', ['--version']).status === 0;

function problemOf(shell: string, command: string): string | undefined {
  const { status, stderr } = spawnSync(shell, ['-c', command], { cwd: folder, encoding: 'utf8' });
  const script = scriptOf(command);
  const text =
    script !== undefined &&
    Object.hasOwn(FILES, script.replace('./', '')) &&
    readFileSync(join(folder, script), 'utf8');
  return startProblem({
    command,
    exitCode: status!,
    stderr: stderr.replaceAll(folder, '/home/user/agent'),
    ...(text && { script: text }),
  });
}

describe.each(['bash', 'sh'])('startProblem, of %s', (shell) => {
  test.each([
    ['nosuch --x', /^there is no program "nosuch" in the sandbox\. It has python3, /],
    ['true; exec nosuch', /^there is no program "nosuch"/],
    ['timeout 5 nosuch', /^there is no program "nosuch"/],
    ['./nosuch.sh', /^there is no \.\/nosuch\.sh in the bundle\. Paths begin at its root/],
    ['bash nosuch.sh', /^there is no nosuch\.sh in the bundle/],
    ['node nosuch.js', /^there is no nosuch\.js in the bundle/],
    [
      './plain.sh',
      /^\.\/plain\.sh may not be executed\. Start it with .* "bash \.\/plain\.sh", or set its executable bit/,
    ],
    ['./crlf.sh', /^\.\/crlf\.sh has Windows line endings \(CRLF\).* Save it with LF/],
    ['bash crlf.sh', /^crlf\.sh has Windows line endings/],
    ['bash crlf-words.sh', /^crlf-words\.sh has Windows line endings/],
    ['./env-crlf', /^\.\/env-crlf has Windows line endings/],
    ['./old.py', /^the interpreter "\/usr\/bin\/python1\.5" in the first line of \.\/old\.py is not in the sandbox/],
    ['./garbage', /^\.\/garbage is not an executable for this machine/],
    ['node a.py', /^the command starts a\.py with node\. Start it with python3\./],
    ['bash a.py', /^the command starts a\.py with bash\. Start it with python3\./],
    ['node needs.js', /^the package "no-such-package" is neither in the bundle nor installed\. List it in the dep/],
    ['node needs.mjs', /^the package "no-such-package" is neither/],
  ])('%s', (command, expected) => {
    expect(problemOf(shell, command)).toMatch(expected);
  });

  test.skipIf(!hasPython).each([
    ['python3 nosuch.py', /^there is no nosuch\.py in the bundle/],
    ['python3 a.js', /^the command starts a\.js with python3\. Start it with node\./],
    ['python3 needs.py', /^the Python module "no_such_module" is neither in the bundle.* requirements\.txt/],
  ])('%s', (command, expected) => {
    expect(problemOf(shell, command)).toMatch(expected);
  });

  test.each(['node fails.js', 'exit 3', 'exit 127', 'echo "sh: 1: x: not found" >&2; exit 1'])(
    'has no opinion about %s',
    (command) => {
      expect(problemOf(shell, command)).toBeUndefined();
    },
  );
});

test.each([
  ['python3 main.py --x', 'main.py'],
  ["cd src && node 'bot.mjs'", 'bot.mjs'],
  ['./start', './start'],
  ['PYTHONPATH=src python3 -m agent', undefined],
])('the script of %s is %s', (command, script) => expect(scriptOf(command)).toBe(script));

test.each(['x: 1: a', "can't open file '", "Cannot find module '/a'\n", '‘', 'env: ', 'bash: a', './', 'a.'])(
  'takes linear time for %j',
  (part) => {
    // Some patterns are quadratic, but search a part of constant size.
    expectLinear((size) => {
      const text = part.repeat(size / part.length);
      startProblem({ command: text.slice(0, size / 10), exitCode: 127, stderr: text, script: text });
    }, 1_000_000);
  },
);
