import { describe, expect, test } from 'vitest';
import type { Skill } from '../skills/skills.ts';
import { parseReply, renderPrompt } from './prompt.ts';

const skill = (text: string): Skill => ({ org: 'acme', name: 'a', version: 'v1', description: '', text, files: [] });

describe('renderPrompt', () => {
  test('skills, prompt, input', () => {
    const skills = [skill('Write short words.\n'), skill('Be kind to {{name}}.')];
    expect(renderPrompt(skills, 'Greet {{ name }} in {{lang-code}}.', { name: 'Ada', 'lang-code': 'de' })).toBe(
      [
        'Write short words.',
        '---',
        'Be kind to {{name}}.',
        '---',
        'Greet Ada in de.',
        'Input:\n```json\n{\n  "name": "Ada",\n  "lang-code": "de"\n}\n```',
      ].join('\n\n'),
    );
  });

  test('no input, no heading', () => {
    expect(renderPrompt([], 'Tell a joke.', {})).toBe('Tell a joke.');
  });

  test('values that are no text go in as JSON', () => {
    const input = { list: [1, 'two'], object: { a: null }, number: 0, no: false };
    expect(renderPrompt([], '{{list}} {{object}} {{number}} {{no}}', input)).toMatch(
      /^\[1,"two"\] \{"a":null\} 0 false\n\n/,
    );
  });

  test('values stay as they are', () => {
    const input = { a: "{{b}} $& $1 $$ $' {{a}}", b: 'never' };
    expect(renderPrompt([], 'A: {{a}}', input)).toMatch(/^A: \{\{b\}\} \$& \$1 \$\$ \$' \{\{a\}\}\n/);
  });

  test('all missing values are named', () => {
    const render = () => renderPrompt([], '{{a}} {{b}} {{c}} {{a}} {{d}} {{toString}}', { a: '', b: null, c: 'here' });
    expect(render).toThrow(
      expect.objectContaining({
        code: 'MISSING_INPUT_FIELDS',
        message: expect.stringContaining('"a", "b", "d", "toString"'),
      }),
    );
  });

  test('braces that are no placeholder stay', () => {
    expect(renderPrompt([], 'Use {{ }} and {x} and {{a b}} and {{#if}}.', {})).toBe(
      'Use {{ }} and {x} and {{a b}} and {{#if}}.',
    );
  });
});

describe('parseReply', () => {
  test.each([
    ['{"a": 1}', { a: 1 }],
    ['  [1, 2]\n', [1, 2]],
    ['"text"', 'text'],
    ['```json\n{"a": 1}\n```', { a: 1 }],
    ['```\n{"a": "```"}\n```\n', { a: '```' }],
  ])('%j', (reply, value) => {
    expect(parseReply(reply, false)).toEqual(value);
    expect(parseReply(reply, true)).toEqual(value);
  });

  test('a block among other text counts for agents that promise JSON', () => {
    const reply = 'Here it is:\n\n```json\n{"a": 1}\n```\n\nAnything else?';
    expect(parseReply(reply, true)).toEqual({ a: 1 });
    expect(parseReply(reply, false)).toEqual({ result: reply });
  });

  test.each(['Hello!', '', '{"a": ', '```json\n{"a": \n```', `${'['.repeat(1000)}${']'.repeat(1000)}`, '1e999'])(
    'what is no JSON is a result',
    (reply) => {
      expect(parseReply(reply, true)).toEqual({ result: reply });
    },
  );

  test('which of two blocks is meant cannot be known', () => {
    const reply = '```json\n1\n```\nor\n```json\n2\n```';
    expect(parseReply(reply, true)).toEqual({ result: reply });
  });
});
