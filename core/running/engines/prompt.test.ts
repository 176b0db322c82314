import { describe, expect, test } from 'vitest';
import type { Skill } from '../skills/skills.ts';
import { renderPrompt } from './prompt.ts';

const skill = (text: string): Skill => ({ org: 'acme', name: 'a', version: 'v1', description: '', text, files: [] });

describe('renderPrompt', () => {
  test('puts skills before the prompt and the input after it', () => {
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

  test('has no input section if the input is empty', () => {
    expect(renderPrompt([], 'Tell a joke.', {})).toBe('Tell a joke.');
  });

  test('inserts values other than strings as JSON', () => {
    const input = { list: [1, 'two'], object: { a: null }, number: 0, no: false };
    expect(renderPrompt([], '{{list}} {{object}} {{number}} {{no}}', input)).toMatch(
      /^\[1,"two"\] \{"a":null\} 0 false\n\n/,
    );
  });

  test('does not replace placeholders inside values', () => {
    const input = { a: "{{b}} $& $1 $$ $' {{a}}", b: 'never' };
    expect(renderPrompt([], 'A: {{a}}', input)).toMatch(/^A: \{\{b\}\} \$& \$1 \$\$ \$' \{\{a\}\}\n/);
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
    expect(renderPrompt([], 'Use {{ }} and {x} and {{a b}} and {{#if}}.', {})).toBe(
      'Use {{ }} and {x} and {{a b}} and {{#if}}.',
    );
  });
});
