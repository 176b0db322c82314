import { expect, test } from 'vitest';
import type { AgentVersion } from '#core/manifest/version.ts';
import { inputFromText } from './text-input.ts';

const agentWith = (input_schema: Record<string, unknown> | null): AgentVersion =>
  ({ orgSlug: 'acme', name: 'helper', version: 1, definition: { input_schema } }) as unknown as AgentVersion;

const schema = (properties: Record<string, unknown>, required: readonly string[] = [], more = {}) => ({
  type: 'object',
  properties,
  required,
  ...more,
});
const text = { type: 'string' };

test.each([
  ['no schema', null, 'message'],
  ['the only required string', schema({ topic: text, message: text }, ['topic']), 'topic'],
  ['a usual name', schema({ tone: text, question: text }), 'question'],
  ['the likeliest usual name', schema({ query: text, input: text }), 'input'],
  [
    'a required string beside one with a default',
    schema({ ask: text, tone: { ...text, default: 'dry' } }, ['ask', 'tone']),
    'ask',
  ],
  ['a string that may be null', schema({ prompt: { type: ['string', 'null'] } }), 'prompt'],
  ['an open schema', { type: 'object' }, 'message'],
])('takes %s', (_, given, name) => {
  expect(inputFromText(agentWith(given), 'Hi')).toEqual({ [name]: 'Hi' });
});

test.each([
  ['two required strings', schema({ city: text, message: text }, ['city', 'message']), '"city", "message"'],
  ['a required number', schema({ count: { type: 'integer' }, message: text }, ['count']), '"count", "message"'],
  ['only an enum', schema({ message: { ...text, enum: ['a'] } }), '"message"'],
  ['no members at all', schema({}, [], { additionalProperties: false }), 'has no members'],
])('refuses %s, and names the members', (_, given, names) => {
  expect(() => inputFromText(agentWith(given), 'Hi')).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  expect(() => inputFromText(agentWith(given), 'Hi')).toThrow(names);
});

const prompt = (text: string): AgentVersion => {
  const agent = agentWith(null);
  return { ...agent, definition: { ...agent.definition, prompt: text } };
};

test('without a schema, a text fills the only placeholder of a prompt', () => {
  expect(inputFromText(prompt('Write about {{topic}}. {{topic}}!'), 'Sea')).toEqual({ topic: 'Sea' });
  expect(inputFromText(prompt('Answer.'), 'Sea')).toEqual({ message: 'Sea' });
  expect(() => inputFromText(prompt('From {{from}} to {{to}}.'), 'Sea')).toThrow('its prompt has "from", "to"');
});
