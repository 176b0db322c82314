import { type Json, parseJsonValue } from '#core/base/json.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import type { JsonSchema, LlmAnswer } from '#core/ports/llm.ts';
import type { EngineRun, Warning } from './engine.ts';
import { constrainsShape, isObjectSchema, withoutForbiddenNulls } from './output-schema.ts';

const FENCED = /^```(?:json)?[ \t]*\r?\n([\s\S]*?)\r?\n?```$/i;
const BLOCK_START = /^```json[ \t]*\r?$/i;
const BLOCK_END = /^```[ \t]*\r?$/;

/** A model's reply, read as the output of a run. */
export interface ReadReply {
  /** Masked. */
  readonly data: Json;
  readonly warnings: Warning[];
  /** Whether the reply is JSON; otherwise `data` is `{"result": text}`. */
  readonly isJson: boolean;
  /** Places where `data` does not match the schema given to the model; absent if none was given. */
  readonly dataProblems?: readonly FieldError[];
}

/**
 * Reads a model's text as the output of a run, with a warning if the text is truncated or empty. If the model was given
 * a
 * schema and the reply can be read in several ways, the first reading that matches is the output.
 */
export async function readReply(
  { agent, mask, validate }: Pick<EngineRun, 'agent' | 'mask' | 'validate'>,
  { text, finishReason }: Pick<LlmAnswer, 'text' | 'finishReason'>,
): Promise<ReadReply> {
  const warnings: Warning[] = [];
  if (finishReason === 'length' || finishReason === 'window') {
    warnings.push({
      code: 'TRUNCATED',
      message: "The answer exceeded the model's output limit and is truncated.",
    });
  } else if (text.trim() === '') {
    warnings.push({ code: 'VALIDATION_SKIPPED', message: 'The model returned an empty answer.' });
  }
  const { output_schema: schema } = agent.definition;
  const value = jsonIn(text, schema);
  const isJson = value !== undefined;
  const plain = isJson ? value : { result: text };
  if (schema === null || !constrainsShape(schema)) return { data: mask.json(plain), warnings, isJson };
  const readings = await Promise.all(
    (isJson ? readingsOf(schema, value) : [plain]).map(async (reading) => {
      const data = mask.json(withoutForbiddenNulls(schema, reading));
      return { data, warnings, isJson, dataProblems: await validate(schema, data) };
    }),
  );
  return readings.find(({ dataProblems }) => dataProblems.length === 0) ?? readings[0]!;
}

/**
 * An output that is not an object was requested as the member `result` of one; a model may have answered without the
 * object.
 */
function readingsOf(schema: JsonSchema, value: Json): [Json, ...Json[]] {
  if (isObjectSchema(schema) || typeof value !== 'object' || value === null || Array.isArray(value)) return [value];
  const { result, ...others } = value;
  return result === undefined || Object.keys(others).length > 0 ? [value] : [result, value];
}

/**
 * Extracts the JSON value of a model's reply: the entire text, also inside a code fence. If there is an output schema,
 * also
 * the only JSON block among other text, or the only object or array (`docs/interface/prompts.md#reply`).
 */
export function jsonIn(reply: string, schema: JsonSchema | null): Json | undefined {
  const text = reply.trim();
  const blocks = schema === null ? [] : blocksIn(text);
  const candidates = [text, FENCED.exec(text)?.[1], blocks.length === 1 ? blocks[0] : undefined];
  for (const candidate of candidates) {
    const value = candidate === undefined ? undefined : parseJsonValue(candidate);
    if (value !== undefined) return value;
  }
  return schema === null ? undefined : onlyValueIn(text, schema.type === 'object' ? '{' : '{[');
}

/** Returns the contents of JSON blocks in Markdown. Works line by line: a single pattern would take quadratic time. */
function blocksIn(text: string): string[] {
  const blocks: string[] = [];
  let open: string[] | undefined;
  for (const line of text.split('\n')) {
    if (open === undefined) {
      if (BLOCK_START.test(line)) open = [];
    } else if (BLOCK_END.test(line)) {
      blocks.push(open.join('\n'));
      open = undefined;
    } else {
      open.push(line);
    }
  }
  return blocks;
}

/** Characters that follow the first bracket of JSON; other brackets are punctuation. */
const JSON_START = /\{\s*["}]|\[\s*["{[\]\-\dtfn]/y;

/**
 * Returns the only JSON value in a text that begins with one of `brackets`. If a value is truncated or invalid, returns
 * undefined: its parts are not the requested output. Reads each character once.
 */
function onlyValueIn(text: string, brackets: string): Json | undefined {
  let found: Json | undefined;
  for (let at = 0; at < text.length; at++) {
    JSON_START.lastIndex = at;
    if (!brackets.includes(text[at]!) || !JSON_START.test(text)) continue;
    const end = endOfValue(text, at);
    const value = end === undefined ? undefined : parseJsonValue(text.slice(at, end));
    if (value === undefined || found !== undefined) return undefined;
    found = value;
    at = end! - 1;
  }
  return found;
}

/** Returns the position at which the bracket at `start` is closed, ignoring brackets in strings. */
function endOfValue(text: string, start: number): number | undefined {
  let depth = 0;
  let inText = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (inText) {
      if (character === '\\') at++;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) return at + 1;
  }
  return undefined;
}
