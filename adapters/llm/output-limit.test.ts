import { expect, test } from 'vitest';
import { outputLimitIn } from './output-limit.ts';

test.each([
  ['max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku', 8192],
  [
    "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 32000 instead.",
    16_384,
  ],
  [
    'The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, expected a value <= 12288, but got 32000 instead.',
    12_288,
  ],
  [
    'max_tokens is too large: 32000. This model supports at most 4096 completion tokens, whereas you provided 32000.',
    4096,
  ],
  [
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens and your request has 25 input tokens (32000 > 8192 - 25).",
    8167,
  ],
  [
    "This model's maximum context length is 4096 tokens. However, you requested 32036 tokens (36 in the messages, 32000 in the completion). Please reduce the length of the messages or completion.",
    4060,
  ],
  [
    'Unable to submit request because it has a maxOutputTokens value of 32000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.',
    8192,
  ],
  ['input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000, decrease input length', 11_760],
])('%s', (text, most) => {
  expect(outputLimitIn(text, 32_000)).toBe(most);
});

test.each([
  'prompt is too long: 208310 tokens > 200000 maximum',
  "This model's maximum context length is 4096 tokens. However, you requested 36096 tokens (4096 in the messages, 32000 in the completion).",
  'input length and `max_tokens` exceed context limit: 200001 + 32000 > 200000',
  'max_tokens: 32000 > 64000, which is the maximum allowed number',
  'max_tokens: must be greater than thinking.budget_tokens',
  '',
])('no lower limit: %s', (text) => {
  expect(outputLimitIn(text, 32_000)).toBeUndefined();
});
