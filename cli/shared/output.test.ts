import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters, styleText } from 'node:util';
import { describe, expect, test } from 'vitest';
import { members, Output, type OutputSettings, table, widthOf } from './output.ts';

test.each([
  ['plain', 5],
  ['日本語', 6],
  ['한국어', 6],
  ['ｆｕｌｌ', 8],
  ['ﾊﾝｶｸ', 4],
  ['café', 4],
  ['cafe\u0301', 4],
  ['🚀', 2],
  ['👩‍👩‍👧‍👦', 2],
  ['🇩🇪', 2],
  ['❤️', 2],
  ['©', 1],
  ['𠮷野家', 6],
  ['a\u200bb', 2],
  [styleText('red', '日本', { validateStream: false }), 4],
  ['', 0],
])('%j takes %i columns', (text, columns) => {
  expect(widthOf(text)).toBe(columns);
});

test('columns stay below each other, also beside wide characters and emoji', () => {
  const rows = [
    ['日本語', 'first', 'x'],
    ['a', '🚀🚀', 'x'],
    ['cafe\u0301', 'third', 'x'],
  ];
  const lines = table(['name', 'text', 'end'], rows, 80).split('\n');
  const starts = lines.map((line) => widthOf(line.slice(0, line.search(/(end|x)$/))));
  expect(new Set(starts).size).toBe(1);
});

test('a line that is too long is cut between characters, and fits', () => {
  const rows = [
    ['日本語日本語日本語日本語日本語', 'プラットフォームのエージェント'],
    ['👩‍👩‍👧‍👦'.repeat(20), 'short'],
  ];
  const lines = table(['name', 'text'], rows, 31).split('\n');
  for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(31);
  expect(stripVTControlCharacters(lines[1]!)).toMatch(/^(日本語)+日?本?… /);
  expect(lines[2]).toMatch(/^(👩‍👩‍👧‍👦)+… /u);
});

describe('progress', () => {
  const MB = 1024 ** 2;
  const shown = (settings: Partial<OutputSettings>, total: number, ...done: number[]) => {
    let text = '';
    const stderr = { write: (part: string) => (text += part) };
    const output = new Output({
      ...{ stdout: stderr, stderr, json: false, quiet: false, color: false, isLive: false },
      ...settings,
    });
    const at = output.progress('uploading', total);
    for (const each of done) at(each);
    output.note('done');
    return text;
  };

  test('is a bar on a terminal, which other text never continues', () => {
    const whole = shown({ isLive: true }, 4 * MB, 0, 1, MB, 4 * MB);
    expect(whole.split('\r').map((line) => line.trimEnd())).toEqual([
      '',
      'uploading [                    ] 0 bytes of 4 MB',
      'uploading [=====               ] 1 MB of 4 MB',
      'uploading [====================] 4 MB of 4 MB        \ndone',
    ]);
    expect(shown({ isLive: true }, 4 * MB, 0, MB)).toMatch(/1 MB of 4 MB\ndone\n$/);
  });

  test('is lines elsewhere, one for little', () => {
    expect(shown({}, 4 * MB, 0, 1, 2 * MB, 2 * MB + 1, 4 * MB)).toBe(
      'uploading 4 MB\nuploading 2 MB of 4 MB\nuploading 4 MB of 4 MB\ndone\n',
    );
    expect(shown({}, 900, 0, 450, 900)).toBe('uploading 900 bytes\ndone\n');
    expect(shown({}, 0, 0)).toBe('uploading 0 bytes\ndone\n');
  });

  test('is not shown with --quiet or --json', () => {
    expect(shown({ quiet: true, isLive: true }, MB, 0, MB)).toBe('');
    expect(shown({ json: true, isLive: true }, MB, 0, MB)).toBe('done\n');
  });
});

describe('what strangers print', () => {
  // Sets the clipboard, clears the screen, moves the cursor, starts a sequence with a C1 code, and reverses text.
  const HOSTILE = 'a\u001b]52;c;aGk=\u0007b\u001b[2Jc\u009b2Jd\u202ee\u2066f\rg';
  const written = (settings: Partial<OutputSettings>, isTTY: boolean, print: (output: Output) => void) => {
    const seen = { stdout: '', stderr: '' };
    const stdout = { isTTY, write: (text: string) => (seen.stdout += text) };
    const stderr = { isTTY, write: (text: string) => (seen.stderr += text) };
    print(new Output({ ...{ stdout, stderr, json: false, quiet: false, color: true, isLive: true }, ...settings }));
    return seen;
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not come.
  const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

  test.each<[string, (output: Output) => void]>([
    ['result', (output) => output.result(HOSTILE, (text) => text)],
    ['item', (output) => output.item(HOSTILE, (text) => text)],
    ['part', (output) => output.part(HOSTILE)],
    ['raw', (output) => output.raw(HOSTILE)],
    ['note', (output) => output.note(HOSTILE)],
    ['warning', (output) => output.warn(HOSTILE)],
    ['error', (output) => output.error(HOSTILE)],
  ])('reaches a terminal escaped, as a %s', (_, print) => {
    const { stdout, stderr } = written({ color: false }, true, print);
    expect(stdout + stderr).not.toMatch(CONTROLS);
    expect(stdout + stderr).toContain('a\\u001b]52;c;aGk=\\u0007b\\u001b[2Jc\\u009b2Jd\\u202ee\\u2066f\\u000dg');
  });

  test('as the title of a bar', () => {
    const { stderr } = written({}, true, (output) => output.progress(HOSTILE, 10)(10));
    expect(stderr.replace(/^\r/, '')).not.toMatch(CONTROLS);
  });

  test.each([true, false])('is the same value in JSON, without a control character (terminal: %s)', (isTTY) => {
    for (const print of [
      (output: Output) => output.result({ [HOSTILE]: HOSTILE }),
      (output: Output) => output.item({ [HOSTILE]: HOSTILE }, String),
    ]) {
      const { stdout } = written({ json: true }, isTTY, print);
      expect(stdout).not.toMatch(CONTROLS);
      expect(JSON.parse(stdout)).toEqual({ [HOSTILE]: HOSTILE });
    }
  });

  test('keeps its colours and the line ends of Windows, where colours are wanted', () => {
    const text = '\u001b[1;31mred\u001b[0m\r\n\u001b[38:5:9mx';
    expect(written({}, true, (output) => output.note(text)).stderr).toBe('\u001b[1;31mred\u001b[0m\n\u001b[38:5:9mx\n');
    expect(written({ color: false }, true, (output) => output.note(text)).stderr).not.toMatch(CONTROLS);
  });

  test('is as it is where a program reads a text that is no JSON', () => {
    expect(written({}, false, (output) => output.raw(HOSTILE)).stdout).toBe(HOSTILE);
  });
});

test('commands print by Output alone', () => {
  const root = join(import.meta.dirname, '../..');
  const files = globSync('cli/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('.test.ts'));
  expect(files.length).toBeGreaterThan(80);
  const direct = files.filter((file) =>
    /console\.|(stdout|stderr)\.write\(|process\.(stdout|stderr)/.test(readFileSync(join(root, file), 'utf8')),
  );
  expect(direct.sort()).toEqual([
    // Prompts of Node's readline, with escaped texts.
    'cli/chat/message-reader.ts',
    // Clears the screen, and prints the output of its own platform.
    'cli/commands/dev.ts',
    // Writes escaped protocol messages.
    'cli/commands/mcp.ts',
    // The text of adapters for foreign projects.
    'cli/frameworks/node-program.ts',
    'cli/frameworks/rows/express.ts',
    'cli/frameworks/rows/hono.ts',
    // Passes the streams to the program.
    'cli/main.ts',
    // Its help.
    'cli/program.ts',
    // Prompts of a library, with escaped texts.
    'cli/shared/cli.ts',
    'cli/shared/output.ts',
  ]);
});

test('members that hold rows are tables below the others', () => {
  const value = {
    plan: 'free',
    none: null,
    tags: ['a', 'b'],
    empty: [],
    runtime: { command: 'node main.js' },
    limits: { calls: { used: 1, limit: null }, tasks: { used: 0, limit: 5 } },
    by_agent: [{ agent_name: 'x\u001b[2J', runs: 2 }, { agent_name: 'y' }],
  };
  expect(members(value).split('\n')).toEqual([
    'plan     free',
    'tags     a, b',
    'empty    -',
    'runtime  {"command":"node main.js"}',
    '',
    'limits',
    'name   used  limit',
    'calls  1     -',
    'tasks  0     5',
    '',
    'by_agent',
    'agent name  runs',
    'x           2',
    'y           -',
  ]);
  const wide = members({ rows: [{ text: 'long '.repeat(40) }] }, 40);
  for (const line of wide.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
});
