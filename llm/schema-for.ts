import { hash } from 'node:crypto';
import { fenced } from '#core/base/fence.ts';
import { keptBy } from '#core/base/kept-by.ts';
import type { JsonSchema, LlmMessage, LlmProvider, LlmRequest } from '#core/ports/llm.ts';
import { type StrictDialect, strictSchema } from './strict-schema.ts';

/**
 * How a provider is told the schema of an answer, or of a tool's parameters (`docs/models.md#schemas`):
 *
 * - `native`: it holds the model to it.
 * - `guide`: it tells the model, and holds it to JSON. OpenAI.
 * - `tool`: the model answers by calling a tool of that schema. Anthropic.
 * - `message`: the message says it.
 * - `loose`: a tool that is not strict.
 */
export type SchemaForm =
  | { readonly kind: 'native' | 'guide' | 'tool'; readonly schema: JsonSchema }
  | { readonly kind: 'message' | 'loose' };

export interface SchemaSettings {
  /** Whether the local server takes `response_format` with a schema. */
  readonly ollamaSchemas: boolean;
}

/** The forms of an answer's schema, an object's, for a model; the one that binds most first. The last one always works. */
export function schemaFor(
  { provider, model }: Pick<LlmRequest, 'provider' | 'model'>,
  schema: JsonSchema,
  { ollamaSchemas }: SchemaSettings,
): readonly SchemaForm[] {
  const message = { kind: 'message' } as const;
  switch (provider) {
    case 'anthropic': {
      const strict = strictSchema(ANTHROPIC, schema);
      const tool = { kind: 'tool', schema } as const;
      if (strict === undefined) return [tool, message];
      const native = { kind: 'native', schema: strict } as const;
      // Where no tool can be forced, the SDK makes a native form of the tool again.
      return isForcedToolRefused(model) ? [native, message] : [native, tool, message];
    }
    case 'openai': {
      const strict = strictSchema(OPENAI, schema);
      const guide = { kind: 'guide', schema } as const;
      return strict === undefined ? [guide, message] : [{ kind: 'native', schema: strict }, guide, message];
    }
    case 'gemini':
      return [{ kind: 'native', schema }, message];
    case 'ollama':
      return ollamaSchemas ? [{ kind: 'native', schema }, message] : [message];
  }
}

const strictIn = keptBy((dialect: StrictDialect) =>
  keptBy((schema: JsonSchema) => ({ schema: strictSchema(dialect, schema) })),
);

/** The forms of a tool's parameters that the model is to keep to. */
export function strictToolFor(provider: LlmProvider, schema: JsonSchema): readonly SchemaForm[] {
  const dialect = { anthropic: ANTHROPIC, openai: OPENAI, gemini: undefined, ollama: undefined }[provider];
  const strict = dialect && strictIn(dialect)(schema).schema;
  return strict === undefined ? [{ kind: 'loose' }] : [{ kind: 'native', schema: strict }, { kind: 'loose' }];
}

/**
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs. Of the 24 properties that need not be there, which
 * the API takes, compilation bears about half.
 */
const ANTHROPIC: StrictDialect = {
  keywords: new Set(),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid']),
  requiresAll: false,
  allowsCycles: false,
  maxOptional: 10,
  maxUnions: 16,
  maxProperties: 1000,
  maxEnumValues: 1000,
  maxDepth: 20,
};

/** https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas */
const OPENAI: StrictDialect = {
  keywords: new Set([
    'minimum',
    'maximum',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'multipleOf',
    'pattern',
    'minItems',
    'maxItems',
  ]),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']),
  requiresAll: true,
  allowsCycles: true,
  maxOptional: 0,
  maxUnions: 5000,
  maxProperties: 5000,
  maxEnumValues: 1000,
  maxDepth: 10,
};

/** The models that think in any case (https://platform.claude.com/docs/en/about-claude/models). */
const isForcedToolRefused = (model: string): boolean => /claude-(sonnet|opus)-5-5|claude-fable-5-[12]/.test(model);

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

const hashOf = keptBy((schema: JsonSchema) => hash('sha256', JSON.stringify(schema), 'base64'));

/** The forms that providers take, as far as this process knows: those that one refused are not sent again. */
export class SchemaForms {
  readonly #settings: SchemaSettings;
  /** Key: provider, model, how it is reached, and schema. Value: the place of the form. The oldest key is the first. */
  readonly #places = new Map<string, number>();

  constructor(settings: SchemaSettings) {
    this.#settings = settings;
  }

  /**
   * The form of the schema in a request.
   *
   * @param before The place that the conversation's turns so far have had.
   */
  choose(request: LlmRequest, schema: JsonSchema, use: 'answer' | 'tool', before: number | undefined): ChosenForm {
    const { provider, model, transport } = request;
    const forms = use === 'tool' ? strictToolFor(provider, schema) : schemaFor(request, schema, this.#settings);
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
  const schema = fenced('json', JSON.stringify(request.outputSchema));
  const text = `${first.text}\n\nAnswer with JSON only, which matches this JSON Schema:\n${schema}`;
  return { ...request, messages: [{ ...first, text }, ...others] };
}
