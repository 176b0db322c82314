/** A problem of a document: its position, and what is allowed there. */
export interface FieldError {
  /** Path of the member, e.g. `custom_tools[0].name`; empty for the document itself. */
  readonly field: string;
  /** Predicate that follows the path, e.g. `must be a string, but is a number`. No full stop at the end. */
  readonly message: string;
}

const UNCHECKED = 'could not be checked';

/** Returns the error of a document whose check was not completed; `why` ends the sentence. */
export const unchecked = (why: string): FieldError => ({ field: '', message: `${UNCHECKED}${why}` });

/** Whether {@link unchecked} created the error, so that the document may be valid or not. */
export const isUnchecked = ({ message }: FieldError): boolean => message.startsWith(UNCHECKED);

/** The problems of a document found so far. */
export interface Found {
  readonly errors: FieldError[];
  /** Sentences for the author. */
  readonly warnings: string[];
}

const MAX_SHOWN_LENGTH = 60;
/** Longest prefix that is searched for a secret: the pattern is quadratic. */
const MAX_SEARCHED_LENGTH = 200;
const IDENTIFIER = /^[A-Za-z_$][\w$-]*$/;

/** Formats `['tools', 0, 'a b']` as `tools[0]["a b"]`. Names come from users, so long ones are cut. */
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

/** Prefixes of well-known credentials, a password in a URL, or a long word of letters and digits. */
const SECRET =
  /\b(sk[-_]|[rp]k_|AKIA|gh[a-z]_|github_pat|xox|eyJ|BEGIN )|:\/\/[^/]*@|(?=\w*\d)(?=\w*[A-Za-z])[\w+/=]{20,}/;

/** Formats a value for a message: shortened, and without its text if that may be a secret. */
export function show(value: unknown): string {
  if (typeof value !== 'string') return showKind(value);
  if (SECRET.test(value.slice(0, MAX_SEARCHED_LENGTH))) return `${showKind(value)} that looks like a secret`;
  return quote(value);
}

/** Quotes and shortens a name from a user. */
export const quote = (text: string): string => JSON.stringify(shorten(text));

/** Like {@link show}, for members whose text is never shown. */
export function showKind(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return value === '' ? 'empty' : `a string of ${value.length} characters`;
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : `an array of ${value.length}`;
  return 'an object';
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
