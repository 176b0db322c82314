/**
 * Errors of providers and model servers for a limit of output tokens that is too high. The maximum is each pattern's
 * number, or the first number minus the second.
 */
const FORMS: readonly RegExp[] = [
  // Anthropic: "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for ..."
  /max_tokens: \d+ > (\d+),/,
  // OpenAI: "Expected a value <= 16384, but got 32000 instead."
  /max\w*_tokens[\s\S]*expected a value <= (\d+)/i,
  // OpenAI's chat completions: "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, ..."
  /supports at most (\d+) completion tokens/,
  // vLLM: "... is too large: 32000. This model's maximum context length is 8192 tokens and your request has 25 input tokens (32000 > 8192 - 25)"
  /max\w*_tokens[\s\S]*\(\d+ > (\d+) - (\d+)\)/,
  // vLLM before 0.10: "This model's maximum context length is 4096 tokens. However, you requested 32025 tokens (25 in the messages, 32000 in the completion)."
  /maximum context length is (\d+) tokens\. However, you requested \d+ tokens \((\d+) in the messages/,
  // DeepSeek: "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
  /valid range of max_tokens is \[\d+, ?(\d+)\]/,
  // Groq: "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model"
  /max\w*_tokens` must be less than or equal to `(\d+)`/,
];
/** Google: "... has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive)." */
const EXCLUSIVE = /maxOutputTokens[\s\S]* to (\d+) \(exclusive\)/;
/** Anthropic: "input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000". */
const SUM = /exceed context limit: (\d+) \+ \d+ > (\d+)/;

/** Returns the highest output token limit that an error names, if it is lower than `sent`. */
export function outputLimitIn(text: string, sent: number): number | undefined {
  const maxTokens = limitIn(text);
  return maxTokens !== undefined && maxTokens > 0 && maxTokens < sent ? maxTokens : undefined;
}

function limitIn(text: string): number | undefined {
  for (const form of FORMS) {
    const found = form.exec(text);
    if (found !== null) return Number(found[1]) - Number(found[2] ?? 0);
  }
  const exclusive = EXCLUSIVE.exec(text);
  if (exclusive !== null) return Number(exclusive[1]) - 1;
  const sum = SUM.exec(text);
  return sum === null ? undefined : Number(sum[2]) - Number(sum[1]);
}
