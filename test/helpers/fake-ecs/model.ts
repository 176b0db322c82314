import * as sdk from '@aws-sdk/client-ecs';
import { type Input, invalid } from './wire.ts';

/** Kinds of the SDK's schemas: list, map, structure, operation. */
const [LIST, MAP, STRUCTURE, OPERATION] = [1, 2, 3, 9];
/** Kinds of values, and the flags for a list or map of them. */
const [NUMBER, BOOLEAN, LIST_OF, MAP_OF] = [1, 2, 64, 128];

// biome-ignore lint/suspicious/noExplicitAny: the SDK's schemas are arrays of its own making.
type Schema = any;

/** Refuses an input that does not fit AWS's own model of the action: unknown members, missing members, wrong types. */
export function checkInput(action: string, input: Input): void {
  const operation = (sdk as Record<string, Schema>)[`${action}$`];
  if (operation?.[0] !== OPERATION) throw new Error(`the SDK has no schema of ${action}`);
  check(operation[4], input, action);
}

function check(given: Schema, value: unknown, path: string): void {
  const schema = typeof given === 'function' ? given() : given;
  if (typeof schema === 'number') {
    checkValue(schema, value, path);
    return;
  }
  if (schema.length === 2) {
    // The schema has traits of the member.
    check(schema[0], value, path);
    return;
  }
  const [kind, , , , members, schemas, required = 0] = schema;
  if (kind === LIST) {
    for (const [index, each] of listOf(value, path).entries()) check(members, each, `${path}[${index}]`);
  } else if (kind === MAP) {
    for (const [name, each] of Object.entries(structureOf(value, path))) check(schemas, each, `${path}.${name}`);
  } else if (kind === STRUCTURE) {
    const names: string[] = members;
    const structure = structureOf(value, path);
    const missing = names.slice(0, required).find((name) => structure[name] === undefined);
    if (missing !== undefined) throw invalid(`${path}: ${missing} is required`);
    for (const [name, each] of Object.entries(structure)) {
      if (!names.includes(name)) throw invalid(`${path}: ${name} is not a member`);
      check(schemas[names.indexOf(name)], each, `${path}.${name}`);
    }
  }
}

function checkValue(schema: number, value: unknown, path: string): void {
  if (schema & LIST_OF) {
    for (const [index, each] of listOf(value, path).entries()) checkValue(schema - LIST_OF, each, `${path}[${index}]`);
  } else if (schema & MAP_OF) {
    for (const [name, each] of Object.entries(structureOf(value, path))) {
      checkValue(schema - MAP_OF, each, `${path}.${name}`);
    }
  } else {
    const kind = { 0: 'string', [NUMBER]: 'number', [BOOLEAN]: 'boolean' }[schema];
    if (kind !== undefined && typeof value !== kind) throw invalid(`${path}: must be a ${kind}`);
  }
}

function listOf(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value)) throw invalid(`${path}: must be a list`);
  return value;
}

function structureOf(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${path}: must be an object`);
  return value as Record<string, unknown>;
}
