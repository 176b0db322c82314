import type { Json } from './ports/table.ts';

/**
 * Deeper JSON does not get in: everything that walks a value by recursion (validation, masking, encoding it again) ends
 * the stack at some thousand levels, and one request or one agent must not be able to make it.
 */
export const MAX_JSON_DEPTH = 500;

/** Whether objects and arrays in `value` lie in one another more than {@link MAX_JSON_DEPTH} times. */
export const isTooDeep = (value: Json, levels: number = MAX_JSON_DEPTH): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isTooDeep(member, levels - 1)));
