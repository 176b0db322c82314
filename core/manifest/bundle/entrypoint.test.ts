import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { detectEntrypoint, entrypointCommand, zippedFolderWarning } from './entrypoint.ts';

type Commands = Parameters<typeof entrypointCommand>[0];
const none: Commands = { runtime: null, run_command: null, entrypoint: null };
const command: Commands = { ...none, runtime: { command: 'make run' } };
const bundle = (...paths: string[]) => ({ files: paths.map((path) => ({ path, size: 1, executable: false })) });

describe('detectEntrypoint', () => {
  test.each<[string, string[], Commands, string | undefined, string | undefined]>([
    ['the named file', ['main.py', 'src/x.py'], none, 'src/x.py', 'src/x.py'],
    ['named before the manifest’s', ['a.py', 'b.py'], { ...none, entrypoint: 'b.py' }, 'a.py', 'a.py'],
    ['the manifest’s', ['main.py', 'b.js'], { ...none, entrypoint: 'b.js' }, undefined, 'b.js'],
    ['main.py first', ['index.js', 'app.py', 'main.py'], none, undefined, 'main.py'],
    ['app.py', ['app.py', 'index.js'], none, undefined, 'app.py'],
    ['sandbox_main.py', ['sandbox_main.py', 'util.py'], none, undefined, 'sandbox_main.py'],
    ['bot.py before index.py', ['index.py', 'bot.py'], none, undefined, 'bot.py'],
    ['server.py', ['server.py'], none, undefined, 'server.py'],
    ['index.js before main.js', ['main.js', 'index.js', 'package.json'], none, undefined, 'index.js'],
    ['app.js', ['bot.js', 'app.js'], none, undefined, 'app.js'],
    ['server.js', ['server.js'], none, undefined, 'server.js'],
    ['agent.ts', ['agent.ts'], none, undefined, 'agent.ts'],
    ['only at the root', ['src/main.py'], command, undefined, undefined],
    ['none beside a command', ['tool.sh'], command, undefined, undefined],
    ['a script beside a command', ['tool.sh'], command, 'tool.sh', 'tool.sh'],
    ['run_command is a command', ['x.rb'], { ...none, run_command: 'ruby x.rb' }, undefined, undefined],
    ['a stale entrypoint beside a command', ['main.py'], { ...command, entrypoint: 'old.py' }, undefined, 'main.py'],
  ])('%s', (_, paths, definition, named, expected) => {
    expect(detectEntrypoint(bundle(...paths), definition, named)).toBe(expected);
  });

  test.each<[string, string[], Commands, string | undefined, string]>([
    [
      'a named file that is not there',
      ['main.py'],
      none,
      'app.py',
      'x-entrypoint is "app.py", which is not in the bundle',
    ],
    ['even beside a command', ['main.py'], command, '../x.py', 'x-entrypoint is "../x.py", which is not in the bundle'],
    [
      'a manifest file that is not there',
      ['main.py'],
      { ...none, entrypoint: 'a.py' },
      undefined,
      'manifest is "a.py"',
    ],
    ['a file of no interpreter', ['a.rb'], none, 'a.rb', 'must end in .py, .js'],
    ['nothing to run', ['README.md', 'src/main.py'], none, undefined, 'nothing to run: name a file with the header'],
  ])('refuses %s', (_, paths, definition, named, message) => {
    expect(() => detectEntrypoint(bundle(...paths), definition, named)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(message) }),
    );
  });
});

describe('entrypointCommand', () => {
  test.each<[Commands, string | null, string]>([
    [{ ...command, run_command: 'x', entrypoint: 'a.py' }, 'b.py', 'make run'],
    [{ ...none, run_command: 'python3 app.py --fast', entrypoint: 'a.py' }, 'b.py', 'python3 app.py --fast'],
    [{ ...none, runtime: {} }, 'main.py', 'python3 main.py'],
    [{ ...none, entrypoint: 'a.py' }, 'src/b.py', 'python3 src/b.py'],
    [{ ...none, entrypoint: 'a.py' }, null, 'python3 a.py'],
    [none, 'index.js', 'node index.js'],
    [none, 'main.mjs', 'node main.mjs'],
    [none, 'main.ts', 'node main.ts'],
    [none, "it's $(x) main.py", "python3 'it'\\''s $(x) main.py'"],
    [none, '-c.py', 'python3 ./-c.py'],
    [none, '~/main.py', "python3 '~/main.py'"],
  ])('%j and %j', (definition, entrypoint, expected) => {
    expect(entrypointCommand(definition, entrypoint)).toBe(expected);
  });

  test.each([none, { ...none, entrypoint: 'a.rb' }])('there is nothing to run in %j', (definition) => {
    expect(() => entrypointCommand(definition, null)).toThrow(expect.objectContaining({ code: 'UNPROCESSABLE' }));
  });

  test.each(['a b.py', "it's.py", '$(id).py', '`id`.py', 'a;b.py', 'a"b.py', '*.py', 'ü&|<>.py', '!x.py', '{a,b}.py'])(
    'a shell reads %s as one word',
    (path) => {
      const line = entrypointCommand(none, path).replace('python3', "printf '%s|'");
      expect(execFileSync('sh', ['-c', line], { encoding: 'utf8' })).toBe(`${path}|`);
    },
  );
});

test.each([
  ['one folder', ['app/main.py', 'app/lib/x.py']],
  ['one folder, zipped by macOS', ['app/main.py', '__MACOSX/app/._main.py', '.DS_Store']],
])('a bundle with %s asks whether the folder was zipped', (_, paths) => {
  const files = paths.map((path) => ({ path, size: 1, executable: false }));
  const none = { runtime: null, run_command: null, entrypoint: null };
  const asks = /everything in the folder "app": did you zip the folder\? .*x-entrypoint/;
  expect(() => detectEntrypoint({ files }, none)).toThrow(asks);
  expect(() => detectEntrypoint({ files }, { ...none, entrypoint: 'main.py' })).toThrow(asks);
  expect(detectEntrypoint({ files }, none, 'app/main.py')).toBe('app/main.py');
});

test('a bundle with two folders does not', () => {
  const files = ['a/x.py', 'b/y.py'].map((path) => ({ path, size: 1, executable: false }));
  expect(() => detectEntrypoint({ files }, { runtime: null, run_command: null, entrypoint: null })).toThrow(
    /^(?!.*did you zip)/,
  );
});

test.each([
  ['python3 main.py', 'main.py'],
  ['node ./main.py --fast', 'main.py'],
  ["cd lib && sh -c 'python3 lib/x.py'", 'lib/x.py'],
  ['python3 app/main.py', undefined],
  ['python3 other.py', undefined],
])('the command %s of a bundle with one folder misses %s', (command, missing) => {
  const files = ['app/main.py', 'app/lib/x.py', '.DS_Store'].map((path) => ({ path, size: 1, executable: false }));
  const warning = zippedFolderWarning({ files }, { runtime: { command }, run_command: null, entrypoint: null });
  if (missing === undefined) expect(warning).toBeUndefined();
  else expect(warning).toMatch(new RegExp(`names "${missing}".*in the folder "app".*did you zip the folder\\?`));
});

test('a command whose file is at the root is not warned about', () => {
  const files = ['main.py', 'app/main.py'].map((path) => ({ path, size: 1, executable: false }));
  const commands = { runtime: { command: 'python3 main.py' }, run_command: null, entrypoint: null };
  expect(zippedFolderWarning({ files }, commands)).toBeUndefined();
});
