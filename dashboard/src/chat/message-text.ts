import type { Json } from '#core/base/json.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';

type Members = Readonly<Record<string, unknown>>;

const membersOf = (value: unknown): Members | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;

/** Returns the members of an agent's input besides its text, as a schema; `undefined` if there are none. */
export function restOfSchema(schema: Members | null | undefined, member: string | undefined): Members | undefined {
  const { [member ?? '']: _, ...rest } = membersOf(schema?.properties) ?? {};
  if (Object.keys(rest).length === 0) return undefined;
  const required = Array.isArray(schema?.required) ? schema.required : [];
  return { ...schema, properties: rest, required: required.filter((name) => name !== member) };
}

/** Returns what a person wrote: the text of an input with nothing else in it; `undefined` if it has more. */
export function textOfInput(input: unknown): string | undefined {
  if (typeof input === 'string') return input;
  const values = Object.values(membersOf(input) ?? {});
  return values.length === 1 && typeof values[0] === 'string' ? values[0] : undefined;
}

/** An answer as people read it. */
export interface ReadableAnswer {
  /** Markdown; absent if the answer has no text. */
  readonly text?: string;
  /** The whole answer, if it has more than the text. */
  readonly whole?: unknown;
}

/** Returns the text of an answer, and the answer itself where the text is not all of it. */
export function readableOf(output: unknown): ReadableAnswer {
  if (output === null || output === undefined) return {};
  if (typeof output === 'string') return { text: output };
  const members = membersOf(output);
  const text = textOfAnswer(output as Json);
  if (members === undefined || !Object.values(members).includes(text)) return { whole: output };
  return Object.keys(members).length === 1 ? { text } : { text, whole: output };
}
