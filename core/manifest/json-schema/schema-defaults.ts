import type { Json } from '#core/base/json.ts';
import { isObject } from '../field-error.ts';

type Document = { readonly [member: string]: Json };

/**
 * The document with the schema's `default` for each member that it lacks, at the top and in the objects that are there
 * (`docs/interface/calls.md#defaults`). Only `properties` count: elements of arrays, references and alternatives
 * (`anyOf`, `if` and the like) fill nothing, so the work is bounded by the schema's size. The given document stays as
 * it is; without a change it is returned itself.
 */
export function withDefaults(schema: Readonly<Record<string, unknown>>, document: Document): Document {
  if (!isObject(schema.properties)) return document;
  const changes: [string, Json][] = [];
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!isObject(property)) continue;
    const isThere = Object.hasOwn(document, name);
    const given = isThere ? document[name] : (property.default as Json | undefined);
    if (given === undefined) continue;
    const value = isObject(given) ? withDefaults(property, given as Document) : given;
    if (!isThere || value !== given) changes.push([name, value]);
  }
  // From entries, a member is an own one, also if its name is "__proto__".
  return changes.length === 0 ? document : Object.fromEntries([...Object.entries(document), ...changes]);
}
