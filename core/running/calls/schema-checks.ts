import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Warning } from '../engines/engine.ts';
import type { CallInput } from '../input/call-input.ts';

/** Loaded when needed: the cold start of an agent without schemas does not wait for ajv. */
const loadValidation = () => import('#core/agents/manifest/schema-validation.ts');

/** Checks the input against the agent's schema. Returns warnings about deprecated fields. Throws INVALID_INPUT. */
export async function checkInput(agent: AgentVersion, input: CallInput): Promise<Warning[]> {
  const schema = agent.definition.input_schema;
  if (schema === null) return [];
  if (input.isMultipart) {
    return [
      { code: 'VALIDATION_SKIPPED', message: 'The input schema is applied to JSON bodies, not to uploaded files.' },
    ];
  }
  const { validateAgainst } = await loadValidation();
  const problems = validateAgainst(schema, input.document);
  if (problems.length > 0) {
    const text = problems.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)).join('; ');
    throw new PlatformError('INVALID_INPUT', `The input does not match the agent's input schema: ${text}`);
  }
  const properties = (schema.properties ?? {}) as Record<string, { deprecated?: unknown }>;
  return Object.keys(input.document)
    .filter((field) => properties[field]?.deprecated === true)
    .map((field) => ({
      code: 'DEPRECATED_FIELD',
      field,
      message: `The field "${field}" will be removed in the next version.`,
    }));
}

/** Returns a warning for each way in which the output does not match the agent's schema. */
export async function checkOutput(agent: AgentVersion, output: Json): Promise<Warning[]> {
  const schema = agent.definition.output_schema;
  if (schema === null) return [];
  const { validateAgainst } = await loadValidation();
  return validateAgainst(schema, output).map(({ field, message }) => ({
    code: 'VALIDATION_SKIPPED',
    ...(field !== '' && { field }),
    message: `The output does not match the agent's output schema: ${message}`,
  }));
}
