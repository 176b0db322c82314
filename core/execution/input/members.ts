import type * as z from 'zod';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { callerSettingsShape } from '#core/manifest/parsing/model-settings.ts';
import type { ModelSettings } from '#core/models/model-settings.ts';
import { isLlmProvider, PROVIDER_NAMES } from '#core/ports/llm.ts';
import type { LlmCredentials } from './call-input.ts';

/** Returns the parsed value. Throws INVALID_INPUT, naming the value `what`, if it does not match the schema. */
export function checkShape<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  throw new PlatformError(
    'INVALID_INPUT',
    `${what} is invalid${path.length > 0 ? ` at ${path.join('.')}` : ''}: ${message}.`,
  );
}

/** Throws INVALID_INPUT, naming the value `what`, if it is not a JSON object. */
export function asObject(value: unknown, what: string): Record<string, Json> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, Json>;
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
  throw new PlatformError('INVALID_INPUT', `${what} must be a JSON object, but it is ${kind}.`);
}

/** Removes `llm_credentials` from a document and returns it; errors call it `field`. Throws INVALID_INPUT. */
export function splitCredentials(document: Record<string, Json>, field: string) {
  const { llm_credentials: given, ...rest } = document;
  if (given === undefined) return { rest, llmCredentials: undefined };
  const { api_key, provider, model, settings } = asObject(given, `"${field}"`);
  for (const [name, value] of Object.entries({ api_key, provider, model })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new PlatformError('INVALID_INPUT', `"${field}.${name}" must be a string.`);
    }
  }
  if (provider !== undefined && !isLlmProvider(provider as string)) {
    throw new PlatformError(
      'INVALID_INPUT',
      `"${field}.provider" is "${String(provider).slice(0, 40)}"; it may be ${PROVIDER_NAMES}.`,
    );
  }
  const checked = settings === undefined ? {} : { settings: checkSettings(settings, `"${field}.settings`) };
  return { rest, llmCredentials: { api_key, provider, model, ...checked } as LlmCredentials };
}

/** Throws INVALID_INPUT, naming the invalid setting. `what` begins with a quotation mark. */
function checkSettings(value: Json, what: string): ModelSettings {
  const { data, error } = callerSettingsShape.safeParse(value);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  throw new PlatformError('INVALID_INPUT', `${[what, ...path].join('.')}" ${message}.`);
}
