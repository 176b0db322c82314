/** Wire format of Stripe's requests and errors. */

/** A parsed form: lists are objects with the members `0`, `1` and so on. */
export interface Nested {
  [name: string]: string | Nested | undefined;
}

/** `a[b][0]=x` becomes `{a: {b: {0: 'x'}}}`; `a[]=x` is the next member of a list. */
export function formOf(text: string): Nested {
  const form: Nested = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.replaceAll(']', '').split('[');
    let at = form;
    for (const [i, part] of path.entries()) {
      const key = part === '' ? String(Object.keys(at).length) : part;
      if (i === path.length - 1) at[key] = value;
      else {
        const next = at[key];
        at[key] = typeof next === 'object' ? next : Object.create(null);
        at = at[key] as Nested;
      }
    }
  }
  return form;
}

export const isExpanded = (form: Nested, path: string): boolean =>
  Object.values((form.expand as Nested | undefined) ?? {}).includes(path);

/** Error response in Stripe's format. */
export class WireError extends Error {
  readonly #status: number;
  readonly #type: string;
  readonly #param?: string;
  readonly #code?: string;

  constructor(status: number, type: string, message: string, param?: string, code?: string) {
    super(message);
    this.#status = status;
    this.#type = type;
    this.#param = param;
    this.#code = code;
  }

  answer(): { status: number; body: unknown } {
    const error = { type: this.#type, message: this.message, param: this.#param, code: this.#code };
    return { status: this.#status, body: { error } };
  }
}

export const wrong = (message: string, param?: string, code?: string): WireError =>
  new WireError(400, 'invalid_request_error', message, param, code);

export const missing = (param: string): WireError =>
  wrong(`Missing required param: ${param}.`, param, 'parameter_missing');
