import { type Json, parseJsonValue } from '#core/base/json.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import type { JsonSchema, LlmAnswer } from '#core/ports/llm.ts';
import type { EngineRun, Warning } from './engine.ts';
import { constrainsShape, isObjectSchema, withoutForbiddenNulls } from './output-schema.ts';

const FENCED = /^```(?:json)?[ \t]*\r?\n([\s\S]*?)\r?\n?```$/i;
const BLOCK_START = /^```json[ \t]*\r?$/i;
const BLOCK_END = /^```[ \t]*\r?$/;

/** A model's reply as the output of a run. */
export interface ReadReply {
  /** Masked. */
  readonly data: Json;
  readonly warnings: Warning[];
  /** Otherwise `data` is `{"result": text}`. */
  readonly isJson: boolean;
  /** Places where `data` does not match the schema that the model was told; absent if it was told none. */
  readonly dataProblems?: readonly FieldError[];
}

/**
 * A model's text as the output of a run, with a warning if the text is cut, or if there is none. Of what can be read in the
 * reply of a model that was told a schema, the output is the first that matches.
 */
export async function readReply(
  { agent, mask, validate }: Pick<EngineRun, 'agent' | 'mask' | 'validate'>,
  { text, finishReason }: Pick<LlmAnswer, 'text' | 'finishReason'>,
): Promise<ReadReply> {
  const warnings: Warning[] = [];
  if (finishReason === 'length' || finishReason === 'window') {
    warnings.push({
      code: 'TRUNCATED',
      message: 'The answer was longer than the model may write at once, and is cut.',
    });
  } else if (text.trim() === '') {
    warnings.push({ code: 'VALIDATION_SKIPPED', message: 'The model answered nothing: its text is empty.' });
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

/** An output that is no object was asked for as the member `result` of one; a model may have answered it as it is. */
function readingsOf(schema: JsonSchema, value: Json): [Json, ...Json[]] {
  if (isObjectSchema(schema) || typeof value !== 'object' || value === null || Array.isArray(value)) return [value];
  const { result, ...others } = value;
  return result === undefined || Object.keys(others).length > 0 ? [value] : [result, value];
}

/**
 * The JSON value of a model's reply: the whole text, also inside a code fence. With the schema of the output, also the only
 * JSON block among other text, or the only object or array (`docs/interface/prompts.md#reply`).
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

/** The content of the JSON blocks of a Markdown text. Line by line: one pattern would search for every end anew. */
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

/** How JSON goes on after its first bracket: other brackets are punctuation. */
const JSON_START = /\{\s*["}]|\[\s*["{[\]\-\dtfn]/y;

/**
 * The only JSON value of a text that begins with one of `brackets`. A value that is cut, or looks like JSON and is none,
 * leaves the text without one: its parts are not what was asked for. Each character is read once.
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

/** Where the bracket at `start` is closed, texts in quotes left out. */
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
