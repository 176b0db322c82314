import { PROPERTY_TEXTS } from './property-texts.ts';

interface Schema {
  description?: string;
  properties?: Record<string, Schema>;
  [keyword: string]: unknown;
}

/** Keywords that hold schemas of the same value, or of values in it that have no name of their own. */
const INNER = ['items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf', 'prefixItems'] as const;

/**
 * The text of a member in `PROPERTY_TEXTS`. A key there is the end of the member's path, as long as it needs to be: `created_at` is
 * every member of this name, `invite.email` the one in an invitation, and `createTask.request.status` that of one body alone.
 *
 * @param path `<operation or component>[.request]`, then the names of the members
 * @param shortest names that a key must have
 */
export function textOf(path: readonly string[], shortest = 1): string | undefined {
  const key = path.map((_, i) => path.slice(i).join('.')).find((each) => PROPERTY_TEXTS[each] !== undefined);
  return key !== undefined && key.split('.').length >= shortest ? PROPERTY_TEXTS[key] : undefined;
}

/** Describes each member of a schema that does not do so itself. Changes the schema. */
export function describeMembers(schema: unknown, path: readonly string[]): void {
  if (typeof schema !== 'object' || schema === null) return;
  if (Array.isArray(schema)) {
    for (const each of schema) describeMembers(each, path);
    return;
  }
  const { properties = {}, ...keywords } = schema as Schema;
  for (const [name, member] of Object.entries(properties)) {
    const description = member.description ?? ofVariant(member) ?? textOf([...path, name]);
    if (description !== undefined) member.description = description;
    describeMembers(member, [...path, name]);
  }
  for (const keyword of INNER) describeMembers(keywords[keyword], path);
}

/** `null` or a value with a text: the text is the member's. */
function ofVariant({ anyOf }: Schema): string | undefined {
  const described = ((anyOf ?? []) as Schema[]).filter(({ description }) => description !== undefined);
  if (described.length !== 1) return undefined;
  const [{ description } = {}] = described;
  delete described[0]!.description;
  return description;
}
