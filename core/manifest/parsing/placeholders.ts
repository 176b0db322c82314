import { suggestion } from '../did-you-mean.ts';
import { isObject } from '../field-error.ts';

/** A placeholder in a prompt (`docs/interface/prompts.md#message`). */
export const PLACEHOLDER = /\{\{\s*([\w-]+)\s*\}\}/g;

/** Cache of the last prompt: a call reads its prompt twice, and the next call is often of the same agent. */
let last: { readonly prompt: string; readonly names: readonly string[] } = { prompt: '', names: [] };

/** Returns the names of a prompt's placeholders without duplicates. */
export function placeholdersOf(prompt: string): readonly string[] {
  if (last.prompt !== prompt) {
    last = { prompt, names: [...new Set([...prompt.matchAll(PLACEHOLDER)].map(([, name]) => name!))] };
  }
  return last.names;
}

const MAX_WARNINGS = 20;
const MAX_SHOWN = 40;
/** Keywords with which `properties` and `required` do not describe all inputs. */
const OPAQUE = ['$ref', '$dynamicRef', 'allOf', 'anyOf', 'oneOf', 'if', 'patternProperties', 'dependentSchemas'];

/** Returns warnings about placeholders that may get no value from an input that matches the schema. */
export function placeholderWarnings(prompt: string, schema: Readonly<Record<string, unknown>>): string[] {
  if (OPAQUE.some((keyword) => Object.hasOwn(schema, keyword))) return [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const warnings = placeholdersOf(prompt).flatMap((name) => {
    const shown = `The prompt has the placeholder {{${name.slice(0, MAX_SHOWN)}}}`;
    if (!Object.hasOwn(properties, name) && !required.has(name)) {
      const end = suggestion(name, Object.keys(properties), (text) => `{{${text}}}`);
      return [`${shown}, which input_schema does not define${end}`];
    }
    const property = properties[name];
    if (required.has(name) || (isObject(property) && property.default !== undefined)) return [];
    return [
      `${shown}, for which input_schema has no default and which it does not require: calls without it are refused.`,
    ];
  });
  return warnings.slice(0, MAX_WARNINGS);
}
