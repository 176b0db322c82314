import { hash } from 'node:crypto';
import { markdownCodeBlock } from '#core/base/markdown-code-block.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';
import type { JsonSchema, LlmMessage, LlmProvider, LlmRequest } from '#core/ports/llm.ts';
import type { ApiSettings, SchemaForm } from './providers/api.ts';
import { apiOf } from './providers.ts';
import { type StrictDialect, strictSchema } from './strict-schema.ts';

const strictIn = memoizeWeak((dialect: StrictDialect) =>
  memoizeWeak((schema: JsonSchema) => ({ schema: strictSchema(dialect, schema) })),
);

/** Returns the forms of a strict tool's parameters. */
export function strictToolFor(provider: LlmProvider, schema: JsonSchema): readonly SchemaForm[] {
  const dialect = apiOf(provider).strictTools;
  const strict = dialect && strictIn(dialect)(schema).schema;
  return strict === undefined ? [{ kind: 'loose' }] : [{ kind: 'native', schema: strict }, { kind: 'loose' }];
}

/** Maximum number of schemas whose first form was rejected that are remembered. Each process has its own memory. */
const MAX_REMEMBERED = 1000;

/** The form of a schema that a request uses, out of all possible ones. */
export interface ChosenForm {
  readonly form: SchemaForm;
  /** Its index among the forms. A conversation keeps it, because its prefix must not change. */
  readonly place: number;
  /**
   * Switches this and later conversations to the next form. Absent in the last form, and after the first answered turn.
   */
  readonly weaken?: () => void;
}

const hashOf = memoizeWeak((schema: JsonSchema) => hash('sha256', JSON.stringify(schema), 'base64'));

/** Remembers which forms providers accept, in this process: a rejected form is not sent again. */
export class SchemaForms {
  readonly #settings: ApiSettings;
  /** Index of the form by provider, model, transport and schema. Oldest key first. */
  readonly #places = new Map<string, number>();

  constructor(settings: ApiSettings) {
    this.#settings = settings;
  }

  /**
   * Returns the form of the schema in a request.
   *
   * @param before Form index that earlier turns of the conversation used.
   */
  choose(request: LlmRequest, schema: JsonSchema, use: 'answer' | 'tool', before: number | undefined): ChosenForm {
    const { provider, model, transport } = request;
    const forms =
      use === 'tool' ? strictToolFor(provider, schema) : apiOf(provider).answerForms(model, schema, this.#settings);
    const key = JSON.stringify([use, provider, model, transport, hashOf(schema)]);
    const place = Math.min(before ?? this.#places.get(key) ?? 0, forms.length - 1);
    const weaken = (): void => {
      // A concurrent request may already have had a weaker one rejected.
      const next = Math.max(place + 1, this.#places.get(key) ?? 0);
      this.#places.delete(key);
      if (this.#places.size >= MAX_REMEMBERED) this.#places.delete(this.#places.keys().next().value!);
      this.#places.set(key, next);
    };
    const isChangeable = before === undefined && place < forms.length - 1;
    return { form: forms[place]!, place, ...(isChangeable && { weaken }) };
  }
}

/** Puts the schema into the request's first message if the model does not get it otherwise. */
export function withSchema(request: LlmRequest, form: ChosenForm | undefined): LlmRequest {
  const isTold =
    form !== undefined &&
    (form.form.kind === 'message' || ('isAlsoTold' in form.form && request.outputSchema !== undefined));
  if (!isTold) return request;
  const [first, ...others] = request.messages as [Extract<LlmMessage, { role: 'user' }>, ...LlmMessage[]];
  const schema = markdownCodeBlock('json', JSON.stringify(request.outputSchema));
  const text = `${first.text}\n\nAnswer with JSON only, which matches this JSON Schema:\n${schema}`;
  return { ...request, messages: [{ ...first, text }, ...others] };
}
