import { describe, expect, test } from 'vitest';
import { tableFrom } from './models-table.ts';

const from = (source: unknown) => tableFrom(JSON.stringify(source));

describe('models.dev', () => {
  const model = {
    id: 'gpt-6-sol',
    name: 'GPT-6 Sol',
    attachment: true,
    reasoning: true,
    reasoning_options: [{ type: 'effort', values: ['none', 'low', 'medium', 'high', 'xhigh', 'max'] }],
    tool_call: true,
    release_date: '2026-09-22',
    modalities: { input: ['text', 'image', 'video'], output: ['text'] },
    open_weights: false,
    cost: {
      input: 2,
      output: 10,
      cache_read: 0.2,
      cache_write: 2.5,
      tiers: [{ tier: { type: 'context', size: 272_000 }, input: 4, output: 15, cache_read: 0.4 }],
      context_over_200k: { input: 4, output: 15, cache_read: 0.4 },
    },
    limit: { context: 1_050_000, input: 922_000, output: 128_000 },
  };
  const source = {
    openai: { id: 'openai', env: ['OPENAI_API_KEY'], npm: '@ai-sdk/openai', models: { [model.id]: model } },
    google: {
      id: 'google',
      models: {
        'gemini-2.5-pro': {
          cost: { input: 1.25, output: 10, cache_read: 0.125, context_over_200k: { input: 2.5, output: 15 } },
          limit: { context: 1_048_576, output: 65_536 },
          modalities: { input: ['text', 'image', 'audio', 'video', 'pdf'], output: ['text'] },
        },
        'gemini-embedding-001': { limit: { context: 2048, output: 0 } },
      },
    },
    azure: { id: 'azure', models: { 'gpt-6-sol': { cost: { input: 99, output: 99 } } } },
  };

  test('facts, prices and bands of the providers that the platform speaks to', () => {
    expect(from(source)).toEqual({
      'gpt-6-sol': {
        window: 1_050_000,
        max_output: 128_000,
        price: [
          { input: 2, output: 10, cache_read: 0.2, cache_write: 2.5 },
          // A band without a price for writes scales the base price with its input price.
          { above: 272_000, input: 4, output: 15, cache_read: 0.4, cache_write: 5 },
        ],
        inputs: ['text', 'image'],
        effort: ['none', 'low', 'medium', 'high', 'xhigh', 'max'],
      },
      'gemini-2.5-pro': {
        window: 1_048_576,
        max_output: 65_536,
        price: [
          { input: 1.25, output: 10, cache_read: 0.125, cache_write: 1.25 },
          { above: 200_000, input: 2.5, output: 15, cache_read: 0.25, cache_write: 2.5 },
        ],
        inputs: ['text', 'image', 'pdf', 'audio'],
      },
    });
  });
});

describe("LiteLLM's price map", () => {
  const haiku = {
    litellm_provider: 'anthropic',
    mode: 'chat',
    max_input_tokens: 1_000_000,
    max_output_tokens: 128_000,
    max_tokens: 128_000,
    input_cost_per_token: 1e-7,
    output_cost_per_token: 5e-7,
    cache_read_input_token_cost: 1e-8,
    cache_creation_input_token_cost: 1.25e-7,
    cache_creation_input_token_cost_above_1hr: 2e-7,
    input_cost_per_token_above_100k_tokens: 5e-7,
    output_cost_per_token_above_100k_tokens: 2.5e-6,
    cache_read_input_token_cost_above_100k_tokens: 5e-8,
    input_cost_per_token_above_100k_tokens_priority: 9e-6,
    supports_vision: true,
    supports_pdf_input: true,
    supports_function_calling: true,
  };
  const source = {
    sample_spec: { litellm_provider: 'one of https://docs.litellm.ai/docs/providers', mode: 'one of: chat, ...' },
    'claude-haiku-5-5': haiku,
    'gemini/gemini-2.5-flash-lite': {
      litellm_provider: 'gemini',
      mode: 'chat',
      input_cost_per_token: 1e-7,
      output_cost_per_token: 4e-7,
      supports_audio_input: true,
    },
    'azure/gpt-6-sol': { ...haiku, litellm_provider: 'azure' },
    'us/claude-haiku-5-5': haiku,
    'text-embedding-3-small': { litellm_provider: 'openai', mode: 'embedding', input_cost_per_token: 2e-8 },
    'gpt-free': { litellm_provider: 'openai', mode: 'chat' },
  };

  test('facts, prices and bands, by the million tokens', () => {
    expect(from(source)).toEqual({
      'claude-haiku-5-5': {
        window: 1_000_000,
        max_output: 128_000,
        price: [
          { input: 0.1, output: 0.5, cache_read: 0.01, cache_write: 0.125 },
          { above: 100_000, input: 0.5, output: 2.5, cache_read: 0.05, cache_write: 0.625 },
        ],
        inputs: ['text', 'image', 'pdf'],
      },
      'gemini-2.5-flash-lite': {
        price: [{ input: 0.1, output: 0.4, cache_read: 0.1, cache_write: 0.1 }],
        inputs: ['text', 'audio'],
      },
    });
  });
});

test.each(['{}', '[]', '{"a": {"b": 1}}', '{"openai": {"models": {}}}'])('%s is neither', (text) => {
  expect(() => tableFrom(text)).toThrow(/no model of Anthropic, OpenAI or Gemini/);
});
