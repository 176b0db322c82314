import type { Json } from '#core/base/json.ts';
import type { LlmTool } from '#core/ports/llm.ts';

type Schema = Readonly<Record<string, unknown>>;

export const SUBMIT = 'submit_result';

/** The tool that ends a loop. Its parameters are the result if that is an object; otherwise `result` is. */
export function submitTool(outputSchema: Schema | null): LlmTool {
  const description = 'Ends the work: the parameters are its result.';
  if (outputSchema !== null && isObjectSchema(outputSchema)) {
    return { name: SUBMIT, description, inputSchema: { ...outputSchema, type: 'object' } };
  }
  // `$ref` starts at the root, so definitions stay there.
  const { $schema, $defs, definitions, ...result } = outputSchema ?? { type: 'string' };
  return {
    name: SUBMIT,
    description,
    inputSchema: {
      ...($schema !== undefined && { $schema }),
      ...($defs !== undefined && { $defs }),
      ...(definitions !== undefined && { definitions }),
      type: 'object',
      properties: { result },
      required: ['result'],
    },
  };
}

/** The result in the parameters of {@link submitTool}, which were checked. */
export const submittedResult = (outputSchema: Schema | null, input: Json): Json =>
  outputSchema === null || isObjectSchema(outputSchema) ? input : (input as { result: Json }).result;

/** Providers accept only objects as parameters, without alternatives at the top. */
const isObjectSchema = (schema: Schema): boolean =>
  (schema.type === 'object' || (schema.type === undefined && 'properties' in schema)) &&
  !['anyOf', 'oneOf', 'allOf', '$ref'].some((keyword) => keyword in schema);
