import type { Json } from '#core/base/json.ts';
import { isObject } from '../field-error.ts';

type Document = { readonly [member: string]: Json };

/**
 * Fills in the schema's `default` for each missing member, at the top and in existing nested objects
 * (`docs/interface/calls.md#defaults`). Only `properties` are followed, not elements of arrays, references and
 * alternatives (`anyOf`, `if` and others), so the work is bounded by the schema's size. The given document is not
 * modified; it is returned itself if nothing changes.
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
  // `fromEntries` creates own members, even for the name "__proto__".
  return changes.length === 0 ? document : Object.fromEntries([...Object.entries(document), ...changes]);
}
