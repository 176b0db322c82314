import { describe, expect, test } from 'vitest';
import type { Skill } from '../skills/skills.ts';
import { renderPrompt } from './prompt.ts';

const skill = (text: string): Skill => ({ org: 'acme', name: 'a', version: 'v1', description: '', text, files: [] });

describe('renderPrompt', () => {
  test('puts skills before the prompt and the input after it', () => {
    const skills = [skill('Write short words.\n'), skill('Be kind to {{name}}.')];
    expect(renderPrompt(skills, 'Greet {{ name }} in {{lang-code}}.', { name: 'Ada', 'lang-code': 'de' })).toEqual({
      role: 'user',
      shared: ['Write short words.', '---', 'Be kind to {{name}}.', '---'].join('\n\n'),
      text: 'Greet Ada in de.\n\nInput:\n```json\n{\n  "name": "Ada",\n  "lang-code": "de"\n}\n```',
    });
  });

  test('has no input section if the input is empty', () => {
    expect(renderPrompt([], 'Tell a joke.', {})).toEqual({ role: 'user', text: 'Tell a joke.' });
  });

  test.each([
    ['``` and ````', '`````'],
    ['a `b` and ``c``', '```'],
    ['`'.repeat(40), '`'.repeat(41)],
  ])('fences the input longer than any backticks in it: %s', (text, fence) => {
    const { text: rendered } = renderPrompt([], 'Read it.', { text });
    expect(rendered).toBe(`Read it.\n\nInput:\n${fence}json\n{\n  "text": "${text}"\n}\n${fence}`);
  });

  test('inserts values other than strings as JSON', () => {
    const input = { list: [1, 'two'], object: { a: null }, number: 0, no: false };
    expect(renderPrompt([], '{{list}} {{object}} {{number}} {{no}}', input).text).toMatch(
      /^\[1,"two"\] \{"a":null\} 0 false\n\n/,
    );
  });

  test('does not replace placeholders inside values', () => {
    const input = { a: "{{b}} $& $1 $$ $' {{a}}", b: 'never' };
    expect(renderPrompt([], 'A: {{a}}', input).text).toMatch(/^A: \{\{b\}\} \$& \$1 \$\$ \$' \{\{a\}\}\n/);
  });

  test('names every missing value in one error', () => {
    const render = () => renderPrompt([], '{{a}} {{b}} {{c}} {{a}} {{d}} {{toString}}', { a: '', b: null, c: 'here' });
    expect(render).toThrow(
      expect.objectContaining({
        code: 'MISSING_INPUT_FIELDS',
        message: expect.stringContaining('"a", "b", "d", "toString"'),
      }),
    );
  });

  test('leaves braces that are no placeholder', () => {
    expect(renderPrompt([], 'Use {{ }} and {x} and {{a b}} and {{#if}}.', {}).text).toBe(
      'Use {{ }} and {x} and {{a b}} and {{#if}}.',
    );
  });
});
