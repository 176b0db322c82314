import * as z from 'zod';
import { EFFORTS } from '#core/ports/llm.ts';
import { MODEL_INPUTS, type ModelFacts, TEMPERATURES } from '#core/ports/model-table.ts';

const tokens = () => z.int().positive();
const dollars = () => z.number().min(0);

const priceSchema = z.strictObject({
  from: z.iso.date().optional(),
  above: tokens().optional(),
  input: dollars(),
  output: dollars(),
  cache_read: dollars(),
  cache_write: dollars(),
});

const factsSchema = z.strictObject({
  window: tokens().optional(),
  max_output: tokens().optional(),
  cache_from: tokens().optional(),
  price: z.array(priceSchema).optional(),
  inputs: z.array(z.enum(MODEL_INPUTS)).optional(),
  forced_tools: z.boolean().optional(),
  effort: z.array(z.enum(EFFORTS)).optional(),
  temperature: z.enum(TEMPERATURES).optional(),
  thoughts: z.boolean().optional(),
}) satisfies z.ZodType<ModelFacts>;

/** Model id -> facts. */
export type ModelFactsById = Readonly<Record<string, ModelFacts>>;

/**
 * More than all providers have. The number is limited because each may become an attribute of a day's totals
 * (`core/runs/usage/costs.ts`).
 */
const MAX_MODELS = 2000;
/** Maximum number of problems in the message, which is one line of the log. */
const MAX_PROBLEMS = 3;

/**
 * Parses a table of models from JSON text (`docs/models.md#the-table`). Throws an Error that names each wrong member
 * and the reason.
 */
export function parseModels(text: string): ModelFactsById {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`it is not JSON: ${(error as Error).message}`);
  }
  const { data, error } = z.record(z.string(), factsSchema).safeParse(value);
  if (data !== undefined) {
    const count = Object.keys(data).length;
    if (count > MAX_MODELS) throw new Error(`it has ${count} models; at most ${MAX_MODELS} are allowed.`);
    return data;
  }
  const problems = error.issues.map(({ path, message }) => `${path.join('.') || 'the table'}: ${message}`);
  const more = problems.length > MAX_PROBLEMS ? `, and ${problems.length - MAX_PROBLEMS} more` : '';
  throw new Error(problems.slice(0, MAX_PROBLEMS).join(', ') + more);
}
