import { hash } from 'node:crypto';
import { markdownCodeBlock } from '#core/base/markdown-code-block.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';
import type { JsonSchema, LlmMessage, LlmProvider, LlmRequest } from '#core/ports/llm.ts';
import type { ApiSettings, SchemaForm } from './providers/api.ts';
import { PROVIDER_APIS } from './providers.ts';
import { type StrictDialect, strictSchema } from './strict-schema.ts';

const strictIn = memoizeWeak((dialect: StrictDialect) =>
  memoizeWeak((schema: JsonSchema) => ({ schema: strictSchema(dialect, schema) })),
);

/** The forms of a tool's parameters that the model is to keep to. */
export function strictToolFor(provider: LlmProvider, schema: JsonSchema): readonly SchemaForm[] {
  const dialect = PROVIDER_APIS[provider].strictTools;
  const strict = dialect && strictIn(dialect)(schema).schema;
  return strict === undefined ? [{ kind: 'loose' }] : [{ kind: 'native', schema: strict }, { kind: 'loose' }];
}

/** Schemas whose first form a provider did not take. More than one process serves at a time. */
const MAX_REMEMBERED = 1000;

/** The form of a schema that a request has, of all that it can have. */
export interface ChosenForm {
  readonly form: SchemaForm;
  /** Its place among the forms: a conversation keeps to it, as its beginning may not change. */
  readonly place: number;
  /** Makes the next form that of this and later conversations. Absent in the last one, and once a turn has been answered. */
  readonly weaken?: () => void;
}

const hashOf = memoizeWeak((schema: JsonSchema) => hash('sha256', JSON.stringify(schema), 'base64'));

/** The forms that providers take, as far as this process knows: those that one refused are not sent again. */
export class SchemaForms {
  readonly #settings: ApiSettings;
  /** Key: provider, model, how it is reached, and schema. Value: the place of the form. The oldest key is the first. */
  readonly #places = new Map<string, number>();

  constructor(settings: ApiSettings) {
    this.#settings = settings;
  }

  /**
   * The form of the schema in a request.
   *
   * @param before The place that the conversation's turns so far have had.
   */
  choose(request: LlmRequest, schema: JsonSchema, use: 'answer' | 'tool', before: number | undefined): ChosenForm {
    const { provider, model, transport } = request;
    const forms =
      use === 'tool'
        ? strictToolFor(provider, schema)
        : PROVIDER_APIS[provider].answerForms(model, schema, this.#settings);
    const key = JSON.stringify([use, provider, model, transport, hashOf(schema)]);
    const place = Math.min(before ?? this.#places.get(key) ?? 0, forms.length - 1);
    const weaken = (): void => {
      // A request at the same time may have been refused a weaker one.
      const next = Math.max(place + 1, this.#places.get(key) ?? 0);
      this.#places.delete(key);
      if (this.#places.size >= MAX_REMEMBERED) this.#places.delete(this.#places.keys().next().value!);
      this.#places.set(key, next);
    };
    const isChangeable = before === undefined && place < forms.length - 1;
    return { form: forms[place]!, place, ...(isChangeable && { weaken }) };
  }
}

/** The request with the schema in its first message, if nothing else tells the model. */
export function withSchema(request: LlmRequest, form: ChosenForm | undefined): LlmRequest {
  if (form?.form.kind !== 'message') return request;
  const [first, ...others] = request.messages as [Extract<LlmMessage, { role: 'user' }>, ...LlmMessage[]];
  const schema = markdownCodeBlock('json', JSON.stringify(request.outputSchema));
  const text = `${first.text}\n\nAnswer with JSON only, which matches this JSON Schema:\n${schema}`;
  return { ...request, messages: [{ ...first, text }, ...others] };
}
