import type { Json } from '#core/base/json.ts';

/** Names of members that hold what an agent says, the likeliest first. */
const USUAL_NAMES = ['reply', 'answer', 'text', 'message', 'output', 'result'] as const;

/**
 * Returns an agent's output as the text that a person reads: a string as it is; of an object, its only string or the string
 * with a usual name; else JSON.
 */
export function textOfAnswer(data: Json): string {
  if (typeof data === 'string') return data;
  if (typeof data === 'object' && data !== null && !Array.isArray(data)) {
    const texts = Object.entries(data).filter((member): member is [string, string] => typeof member[1] === 'string');
    if (texts.length === 1 && Object.keys(data).length === 1) return texts[0]![1];
    const usual = USUAL_NAMES.find((name) => texts.some(([member]) => member === name));
    if (usual !== undefined) return data[usual] as string;
    if (texts.length === 1) return texts[0]![1];
  }
  return JSON.stringify(data);
}
