import type { Json } from '#core/base/json.ts';

type JsonObject = { readonly [member: string]: Json };

/**
 * Builds the input of the run: members of the payload override stored ones; a payload that is not an object becomes
 * `data`.
 * Senders cannot choose a model: `llm_credentials` is dropped, so that no record keeps a key that was sent by mistake.
 */
export function mergeInput(input: JsonObject, payload: Json | undefined): JsonObject {
  if (payload === undefined) return input;
  const isObject = typeof payload === 'object' && payload !== null && !Array.isArray(payload);
  const { llm_credentials: _, ...members } = isObject ? payload : { data: payload };
  return { ...input, ...members };
}
