import type { Approval } from './waiting.ts';

type Schema = Readonly<Record<string, unknown>>;
type Members = Readonly<Record<string, unknown>>;

/** A member that differs, by its path. An absent value is `undefined`. */
export interface Change {
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

const membersOf = (value: unknown): Members | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;

/** Returns the members in which two values differ: those of objects by themselves, lists as a whole. */
export function changesOf(before: unknown, after: unknown, path = ''): Change[] {
  const [old, now] = [membersOf(before), membersOf(after)];
  if (old === undefined || now === undefined) {
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
  }
  const names = new Set([...Object.keys(old), ...Object.keys(now)]);
  return [...names].flatMap((name) =>
    changesOf(
      Object.hasOwn(old, name) ? old[name] : undefined,
      Object.hasOwn(now, name) ? now[name] : undefined,
      path === '' ? name : `${path}.${name}`,
    ),
  );
}

/** The tool of a run that asks whether it may cost more: no tool has such a name. */
export const MORE_COST = 'loop.max_cost_usd';

/** Name of the event that a call waits for. */
export const eventOf = ({ arguments: args }: Pick<Approval, 'arguments'>): string => String(membersOf(args)?.event);

/** A schema that a form can show, and how its value becomes what is sent. */
export interface FormShape {
  readonly schema: Schema;
  /** Whether the form has the value in a member `answer`, because it is no object. */
  readonly isWrapped: boolean;
}

/** Returns the schema of a form; `undefined` if only JSON can be edited. */
export function formOf(schema: Approval['schema']): FormShape | undefined {
  if (schema === null) return undefined;
  if (Object.keys(membersOf(schema.properties) ?? {}).length > 0) return { schema, isWrapped: false };
  if (typeof schema.type !== 'string' || schema.type === 'object' || schema.type === 'null') return undefined;
  const { $defs, definitions, ...answer } = schema;
  return {
    schema: { type: 'object', properties: { answer }, required: ['answer'], $defs, definitions },
    isWrapped: true,
  };
}

/** Whether a question is answered by a text. */
export const isText = ({ schema, options }: Approval): boolean =>
  options === null && (schema === null || (schema.type === 'string' && schema.enum === undefined));

/** Where the API found a problem with a decision, as its message says: `body.arguments.amount: must be ...`. */
export interface FieldProblem {
  readonly field: 'arguments' | 'answer' | 'reason';
  /** Path in the field, such as `items.0.count`; empty for the field itself. */
  readonly path: string;
  readonly message: string;
}

export function fieldProblemOf(message: string): FieldProblem | undefined {
  const [, field, path = '', text] = /^body\.(arguments|answer|reason)([^:\s]*): (.*)$/s.exec(message) ?? [];
  if (field === undefined || text === undefined) return undefined;
  const plain = path.replaceAll(/\[(\d+)\]/g, '.$1').replace(/^\./, '');
  return { field: field as FieldProblem['field'], path: plain, message: text };
}
