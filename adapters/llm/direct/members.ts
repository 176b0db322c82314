/** Validators for members of responses. All except {@link isObject} throw for an unexpected type. */

export type Members = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function objectOf(value: unknown): Members {
  if (!isObject(value)) throw new TypeError('no object');
  return value;
}

export function listOf(value: unknown): readonly Members[] {
  if (!Array.isArray(value)) throw new TypeError('no list');
  return value.map(objectOf);
}

export function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError('no text');
  return value;
}

export function countOf(value: unknown): number {
  if (typeof value !== 'number') throw new TypeError('no number');
  return value;
}

/** A member that may be absent or null. */
export const maybe = <Value>(read: (value: unknown) => Value, value: unknown): Value | undefined =>
  value === undefined || value === null ? undefined : read(value);
