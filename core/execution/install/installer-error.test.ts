import { expect, test } from 'vitest';
import { installerError } from './installer-error.ts';

const npm = (text: string): string =>
  text
    .trim()
    .split('\n')
    .map((line) => `npm error ${line}`)
    .join('\n');

test.each<[what: string, output: string, line: string]>([
  [
    'a package that is not there',
    `Looking in indexes: https://pypi.org/simple
ERROR: Could not find a version that satisfies the requirement nope==1 (from versions: none)
ERROR: No matching distribution found for nope==1
`,
    'ERROR: No matching distribution found for nope==1',
  ],
  [
    'a package that needs another Python',
    `ERROR: Ignored the following versions that require a different python version: 5.3 Requires-Python >=3.12; 6.0 Requires-Python >=3.13
ERROR: Could not find a version that satisfies the requirement django>=5.3 (from versions: 5.2)
ERROR: No matching distribution found for django>=5.3
`,
    'ERROR: No matching distribution found for django>=5.3. Other versions need Python >=3.13: environment.python_version in agent.json asks for another one.',
  ],
  [
    'versions that exclude each other',
    `ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/
`,
    'ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.',
  ],
  [
    'a build that raises',
    `Processing ./evil
  error: subprocess-exited-with-error
  
  × Preparing metadata (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [6 lines of output]
      compiling...
      Traceback (most recent call last):
        File "/tmp/backend.py", line 3, in build_wheel
          raise RuntimeError("no compiler for you")
      RuntimeError: no compiler for you
      [end of output]
  
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

× Encountered error while generating package metadata.
╰─> See above for output.
`,
    'RuntimeError: no compiler for you (Preparing metadata (pyproject.toml) did not run successfully)',
  ],
  [
    'a compiler that is missing',
    `  × Building wheel for x (pyproject.toml) did not run successfully.
  ╰─> [2 lines of output]
      building 'x' extension
      error: command 'gcc' failed: No such file or directory
      [end of output]
  ERROR: Failed building wheel for x
ERROR: Failed to build installable wheels for some pyproject.toml based projects (x)
`,
    "error: command 'gcc' failed: No such file or directory (Building wheel for x (pyproject.toml) did not run successfully)",
  ],
  [
    'a package that npm does not find',
    npm(`code E404
404 Not Found - GET https://registry.npmjs.org/nope
404
404  The requested resource 'nope@1' could not be found
404 Note that you can also install from a
404 tarball, folder, http url, or git url.
A complete log of this run can be found in: /home/user/.npm/_logs/x.log`),
    'npm error 404 Not Found - GET https://registry.npmjs.org/nope',
  ],
  [
    'a file that npm does not find',
    npm(`code ENOENT
syscall open
path /home/user/layer/not-there/package.json
errno -2
enoent Could not read package.json: Error: ENOENT: no such file or directory
enoent This is related to npm not being able to find a file.`),
    'npm error enoent Could not read package.json: Error: ENOENT: no such file or directory',
  ],
  [
    'a script of npm that fails',
    npm(`code 1
path /home/user/layer/node_modules/g
command failed
command sh -c node install.js
/home/user/layer/node_modules/g/install.js:1
throw new Error('no binary for this platform')
^

Error: no binary for this platform
    at Object.<anonymous> (/home/user/layer/node_modules/g/install.js:1:7)

Node.js v24.21.0
A complete log of this run can be found in: /x`),
    'npm error Error: no binary for this platform',
  ],
  ['something else', 'sh: 1: pip: not found\n', 'sh: 1: pip: not found'],
])('%s: the decisive line comes first', (_, output, line) => {
  const [first] = installerError(output).split('\n', 1);
  expect(first).toBe(line);
  for (const each of [output.trim().split('\n')[0]!, output.trim().split('\n').at(-1)!]) {
    expect(installerError(output)).toContain(each);
  }
});

test('of a long output, the beginning and the end follow', () => {
  const output = `first line\n${'ERROR: too early\n'.repeat(5000)}ERROR: the cause\n${'later\n'.repeat(2000)}last line`;
  const error = installerError(output);
  expect(error.startsWith('ERROR: the cause\n\nfirst line\n')).toBe(true);
  expect(error.endsWith('last line')).toBe(true);
  expect(Buffer.byteLength(error)).toBeLessThan(4700);
});

test('an output without lines has no error', () => {
  expect(installerError('\n  \n')).toBe('');
});
