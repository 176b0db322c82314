import { expect, test } from 'vitest';
import { settingProblem } from './settings.ts';

test.each<[string, string, object, boolean]>([
  ['anthropic', 'claude-sonnet-5-5', { temperature: 0.5 }, false],
  ['anthropic', 'claude-haiku-4-5', { temperature: 0.5 }, true],
  ['anthropic', 'claude-haiku-4-5', { temperature: 1.5 }, false],
  ['anthropic', 'claude-sonnet-5-5', { seed: 1 }, false],
  ['anthropic', 'claude-sonnet-5-5', { output_config: { effort: 'low' } }, true],
  ['anthropic', 'claude-haiku-4-5', { output_config: { effort: 'low' } }, false],
  ['anthropic', 'claude-sonnet-5-5', { output_config: { effort: 'none' } }, false],
  ['anthropic', 'claude-sonnet-5-5', { thinking: { type: 'disabled' } }, false],
  ['anthropic', 'claude-sonnet-5-5', { thinking: { type: 'between_tools' } }, true],
  ['anthropic', 'claude-opus-5-5', { thinking: { type: 'between_tools' } }, false],
  ['anthropic', 'claude-sonnet-5-5', { stop_sequences: [' '] }, false],
  ['openai', 'gpt-6.2-sol', { stop: ['x'] }, false],
  ['openai', 'gpt-6.2-sol', { seed: 1 }, false],
  ['openai', 'gpt-6.2-sol', { temperature: 1 }, false],
  ['openai', 'gpt-6-sol', { temperature: 1, reasoning: { effort: 'none' } }, true],
  ['openai', 'gpt-6.2-sol', { reasoning: { effort: 'none' } }, false],
  ['openai', 'gpt-4o', { reasoning: { effort: 'low' } }, false],
  ['openai', 'gpt-4o', { temperature: 1 }, true],
  ['openai', 'gpt-4o', { parallel_tool_calls: false }, false],
  ['openai', 'gpt-4o', { parallel_tool_calls: false, tools: [{}] }, true],
  ['gemini', 'gemini-3.8-flash', { generationConfig: { thinkingConfig: { thinkingLevel: 'low' }, seed: 1 } }, true],
  ['gemini', 'gemini-3.8-flash', { generationConfig: { thinkingConfig: { thinkingLevel: 'max' } } }, false],
  ['gemini', 'gemini-2.5-pro', { generationConfig: { thinkingConfig: { thinkingLevel: 'low' } } }, false],
  ['ollama', 'llama3.2', { temperature: 1, seed: 1, stop: ['x'], reasoning_effort: 'low' }, true],
])('%s, %s: %j is taken: %s', (provider, model, body, isTaken) => {
  expect(settingProblem(provider, model, body) === undefined).toBe(isTaken);
});
