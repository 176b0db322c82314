import type { Json } from '#core/base/json.ts';
import { parseJsonValue } from '#core/base/json.ts';
import type { LlmAnswer } from '#core/ports/llm.ts';
import type { EngineRun, Warning } from './engine.ts';

const FENCED = /^```(?:json)?[ \t]*\r?\n([\s\S]*?)\r?\n?```$/i;
const FENCED_BLOCKS = /^```json[ \t]*\r?\n([\s\S]*?)^```[ \t]*$/gim;

/** A model's text as the masked output of a run, with a warning if the text is cut. */
export function outputOfReply(
  { agent, mask }: Pick<EngineRun, 'agent' | 'mask'>,
  { text, finishReason }: Pick<LlmAnswer, 'text' | 'finishReason'>,
): { data: Json; warnings: Warning[] } {
  const message = 'The answer was longer than the model may write at once, and is cut.';
  return {
    data: mask.json(parseReply(text, agent.definition.output_schema !== null)),
    warnings: finishReason === 'length' ? [{ code: 'TRUNCATED', message }] : [],
  };
}

/**
 * The JSON value of a model's reply: the whole text, also inside a code fence. With `expectsJson`, also the only JSON
 * block among other text. Any other reply is `{"result": text}` (`docs/interface/prompts.md#reply`).
 */
export function parseReply(reply: string, expectsJson: boolean): Json {
  const text = reply.trim();
  const blocks = expectsJson ? [...text.matchAll(FENCED_BLOCKS)] : [];
  const candidates = [text, FENCED.exec(text)?.[1], blocks.length === 1 ? blocks[0]![1] : undefined];
  for (const candidate of candidates) {
    const value = candidate === undefined ? undefined : parseJsonValue(candidate);
    if (value !== undefined) return value;
  }
  return { result: reply };
}
