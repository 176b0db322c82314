import { expect, test } from 'vitest';
import type { LlmProvider } from '#core/ports/llm.ts';
import { modelNamed } from './named-model.ts';
import type { ProviderUrls } from './providers/row.ts';

const config = { anthropicUrl: 'a', openaiUrl: 'o', geminiUrl: 'g', ollamaUrl: undefined } as unknown as ProviderUrls;
const named = (text: string, supported_providers: readonly (LlmProvider | 'any')[] = ['any']) =>
  modelNamed(text, { wishes: { supported_providers, default_models: {} }, config, field: 'body.model' });

test.each([
  ['anthropic/claude-x', 'anthropic', 'claude-x'],
  ['claude-x', 'anthropic', 'claude-x'],
  ['openai-compatible:groq/meta/llama-4', 'openai-compatible:groq', 'meta/llama-4'],
])('%s names its provider', (text, provider, model) => {
  expect(named(text)).toEqual({ provider, model });
});

test('a model of another maker belongs to the only provider of an agent', () => {
  const only = ['openai-compatible:groq'] as const;
  expect(named('meta/llama-4', only)).toEqual({ provider: 'openai-compatible:groq', model: 'meta/llama-4' });
});

test.each([
  ['mystery', ['any'], 'body.model: must name the provider, too: <provider>/mystery.'],
  ['ollama/llama', ['any'], 'body.model: is a model of ollama; this agent may use anthropic, openai, gemini.'],
  ['claude-x', ['openai'], 'body.model: is a model of anthropic; this agent may use openai.'],
  ['anthropic/', ['any'], 'body.model: must be a model id'],
  ['anthropic/../v2', ['any'], 'body.model: must be a model id'],
  ['anthropic/a b', ['any'], 'body.model: must be a model id'],
] as const)('%s is refused for an agent of %j', (text, supported, message) => {
  expect(() => named(text, supported)).toThrow(message);
});
