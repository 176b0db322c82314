import { expect, test } from 'vitest';
import { CONTROLS } from '#core/base/control-characters.ts';
import { Output } from '../shared/output.ts';
import type { Progress } from '../shared/run-progress.ts';
import { AnswerView } from './answer-view.ts';

/** What a terminal shows of these records and this answer. */
function shown(
  records: readonly Progress[],
  answer: string,
  settings: { json?: boolean; color?: boolean } = {},
): string {
  let all = '';
  const terminal = { isTTY: true, columns: 80, write: (text: string) => (all += text) };
  const { json = false, color = false } = settings;
  const output = new Output({ stdout: terminal, stderr: terminal, json, quiet: false, color, isLive: false });
  const view = new AnswerView(output);
  for (const record of records) view.show(record);
  view.end(answer);
  return all;
}
const text = (words: string): Progress => ({ type: 'text_delta', text: words });
const thought = (words: string): Progress => ({ type: 'reasoning_delta', text: words });
const turn = (number: number): Progress => ({ type: 'turn_start', turn: number, max_turns: 25 });
const call = (tool: string, args_brief = ''): Progress => ({ type: 'tool_call', tool, args_brief });
const result = (tool: string, status = 'ok'): Progress => ({ type: 'tool_result', tool, status });

test('an answer is shown once, as it is written', () => {
  expect(shown([text('Hello, '), text('Ada!\nHow are you?')], 'Hello, Ada!\nHow are you?')).toBe(
    'Hello, Ada!\nHow are you?\n',
  );
  expect(shown([text('\n\n'), text('  Hello.\n')], 'Hello.')).toBe('Hello.\n');
  expect(shown([], 'Hello.')).toBe('Hello.\n');
});

test('tools are shown in lines between the texts, and the result of a loop at the end', () => {
  const records = [
    turn(1),
    text('Let me look.'),
    call('find_lines', '{"word":"oven"}'),
    result('find_lines'),
    turn(2),
    call('bash', 'false'),
    result('bash', 'error'),
    turn(3),
    call('submit_result'),
    result('submit_result'),
  ];
  expect(shown(records, 'It failed on Wednesday.')).toBe(
    'Let me look.\nfind_lines {"word":"oven"}\nbash false\nbash failed\nIt failed on Wednesday.\n',
  );
});

test('an answer of a schema is shown as its text, and not in parts', () => {
  for (const opening of ['{"repl', ' {', '```json\n{']) {
    expect(shown([text(opening), text('y":"Hello."}')], 'Hello.')).toBe('Hello.\n');
  }
});

test('thoughts are folded to a line', () => {
  expect(shown([thought('The user\nis '), thought('Ada.'), text('Hello, Ada!')], 'Hello, Ada!')).toBe(
    'thought: The user is Ada.\nHello, Ada!\n',
  );
  expect(shown([thought('long '.repeat(100))], 'Hello.').split('\n')[0]).toHaveLength('thought: …'.length + 100);
});

test('a text that is void is followed by the new one', () => {
  const retry = { type: 'retry', turn: 1, attempt: 2, reason: 'LLM_ERROR', discard_text: true };
  expect(shown([turn(1), text('Hel'), retry, text('Hello.')], 'Hello.')).toBe('Hel\nThe answer begins anew.\nHello.\n');
  expect(shown([turn(1), retry, text('Hello.')], 'Hello.')).toBe('Hello.\n');
});

const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u001b[8m\u009b31m\rHi\u202eolleh\u0000';

test.each([{ color: true }, { color: false }])('no control character reaches the terminal, %o', (settings) => {
  const records = [
    text(HOSTILE),
    text('\u001b'),
    text('[2J'),
    thought(HOSTILE),
    call(HOSTILE, HOSTILE),
    result(HOSTILE, 'error'),
  ];
  const all = shown([...records, { type: 'stderr', text: HOSTILE }], HOSTILE, settings);
  // Of what the view itself writes, only dim is left.
  const left = all.replaceAll('\u001b[2m', '').replaceAll('\u001b[22m', '');
  expect(left.replaceAll('\n', '')).not.toMatch(new RegExp(`[${CONTROLS}\\t]`));
  expect(all).toContain('Hi');
});

test('with --json the answer is left to its line of JSON', () => {
  expect(shown([text('Hello.'), call('bash', 'ls')], 'Hello.', { json: true })).toBe('bash ls\n');
});
