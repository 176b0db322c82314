import type { Json } from '#core/base/json.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';
import type { JsonSchema, LlmTool } from '#core/ports/llm.ts';
import { isObjectSchema, objectSchema } from '../output-schema.ts';

export const SUBMIT = 'submit_result';

const TEXT: JsonSchema = { type: 'string' };

/**
 * Builds the tool that ends a loop. Its parameters are the result if that is an object; otherwise its member `result`
 * is.
 */
export const submitTool = (outputSchema: JsonSchema | null): LlmTool => toolFor(outputSchema ?? TEXT);

const toolFor = memoizeWeak(
  (schema: JsonSchema): LlmTool => ({
    name: SUBMIT,
    description: 'Ends the work: the parameters are its result.',
    inputSchema: objectSchema(schema),
    isStrict: true,
  }),
);

/** Returns the result from the validated parameters of {@link submitTool}. */
export const submittedResult = (outputSchema: JsonSchema | null, input: Json): Json =>
  outputSchema === null || isObjectSchema(outputSchema) ? input : (input as { result: Json }).result;
