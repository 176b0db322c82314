/** One thing that is wrong with a document: where, and what is allowed there. */
export interface FieldError {
  /** Path of the member, e.g. `custom_tools[0].name`; empty for the document itself. */
  readonly field: string;
  /** Follows the path in a sentence, e.g. `must be a string, but is a number`. No stop at the end. */
  readonly message: string;
}

const MAX_SHOWN_LENGTH = 60;
/** Of a text, what is looked at before it is shown: the pattern takes time with the square of it. */
const MAX_CHECKED_LENGTH = 200;
const IDENTIFIER = /^[A-Za-z_$][\w$-]*$/;

/** `['tools', 0, 'a b']` -> `tools[0]["a b"]`. Names come from users: long ones are cut. */
export function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    const name = shorten(String(key));
    if (!IDENTIFIER.test(name)) return `${text}[${JSON.stringify(name)}]`;
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

const shorten = (text: string): string =>
  text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH - 1)}…` : text;

/** Beginnings of well-known credentials, and unbroken runs of letters with digits, which is how the others look. */
const SECRET =
  /\b(sk[-_]|[rp]k_|AKIA|gh[a-z]_|github_pat|xox|eyJ|BEGIN )|:\/\/[^/]*@|(?=\w*\d)(?=\w*[A-Za-z])[\w+/=]{20,}/;

/** A value as a message may show it: short, and never what may be a secret. */
export function show(value: unknown): string {
  if (typeof value !== 'string') return showKind(value);
  if (SECRET.test(value.slice(0, MAX_CHECKED_LENGTH))) return `${showKind(value)} that looks like a secret`;
  return quote(value);
}

/** A name from a user in quotes, short. */
export const quote = (text: string): string => JSON.stringify(shorten(text));

/** As {@link show} for members whose strings are not to be shown at all. */
export function showKind(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return value === '' ? 'empty' : `a string of ${value.length} characters`;
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : `an array of ${value.length}`;
  return 'an object';
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
