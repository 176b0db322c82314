import type { AgentDefinition } from './definition.ts';
import { isObject } from './field-error.ts';

/** Rules for files in calls of an agent (`docs/interface/files.md#rules-of-an-agent`). */
export interface FileRules {
  readonly accepts: boolean;
  /** Media types such as `image/*`, and extensions such as `.pdf`, in lower case. Empty: all files. */
  readonly accept: readonly string[];
  readonly max: number | null;
}

const ENTRY = /^(\.[a-z0-9][a-z0-9._-]*|\*\/\*|[a-z0-9][\w.+-]*\/(\*|[a-z0-9][\w.+-]*))$/;

/** Whether a text is a valid entry of `accept`. */
export const isAcceptEntry = (entry: string): boolean => ENTRY.test(entry.trim().toLowerCase());

/**
 * Returns the members `accepts_files`, `accept` and `max_files` of the manifest. Missing ones are read from the input
 * schema, at its top or in its file property, where older manifests have them.
 */
export function fileRulesOf({ input_schema, ...given }: Pick<AgentDefinition, 'input_schema' | FileMember>): FileRules {
  const places = [given, input_schema, fileProperty(input_schema)?.schema].map((place) => place ?? {});
  const first = (member: FileMember, isGiven: (value: unknown) => boolean): unknown =>
    places.map((place) => (place as Record<string, unknown>)[member]).find(isGiven);
  const max = first('max_files', (value) => Number.isInteger(value) && (value as number) > 0);
  return {
    accepts: (first('accepts_files', (value) => typeof value === 'boolean') as boolean | undefined) ?? true,
    accept: entriesOf(first('accept', (value) => entriesOf(value).length > 0)),
    max: (max as number | undefined) ?? null,
  };
}

type FileMember = 'accepts_files' | 'accept' | 'max_files';

/** Accepts a list, or one text with commas, as in HTML. */
function entriesOf(value: unknown): string[] {
  const list = typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : [];
  return list.filter((entry): entry is string => typeof entry === 'string' && isAcceptEntry(entry)).map(plain);
}

const plain = (entry: string): string => entry.trim().toLowerCase();

/** Returns the property of an input schema that represents the files of a call: its keyword `accepts_files` is true. */
export function fileProperty(
  schema: AgentDefinition['input_schema'],
): { readonly name: string; readonly schema: Readonly<Record<string, unknown>> } | undefined {
  if (!isObject(schema?.properties)) return undefined;
  const found = Object.entries(schema.properties).find(([, each]) => isObject(each) && each.accepts_files === true);
  return found && { name: found[0], schema: found[1] as Record<string, unknown> };
}
