import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Message } from '@ai-sdk/provider';
import type { Config } from '#core/base/config.ts';
import type { JsonSchema, LlmRequest } from '#core/ports/llm.ts';
import type { ProviderEndpoint } from '../endpoints.ts';
import type { StrictDialect } from '../strict-schema.ts';

export type ModelFactory = (request: LlmRequest, wire: ProviderEndpoint) => LanguageModelV4;

/** How a provider's API differs from the others, in the terms of the AI SDK. */
export interface ProviderApi {
  /** Loads the provider's package of the AI SDK. */
  readonly load: (config: ApiSettings) => Promise<ModelFactory>;
  /** Whether the API has a mode that answers with any JSON object. */
  readonly hasJsonMode: boolean;
  /** Whether a tool must be declared as not strict. */
  readonly declaresLooseTools: boolean;
  /** Whether the API takes lists of parts in messages, and files in results of tools. */
  readonly takesParts: boolean;
  /** Whether requests mark what the provider's cache is to keep (`docs/models.md#caching`). */
  readonly marksCache: boolean;
  /** The JSON Schema subset of strict tools. @default - the API has no strict tools */
  readonly strictTools?: StrictDialect;
  /** The forms of an answer's schema, the strictest first. The last one always works. */
  readonly answerForms: (model: string, schema: JsonSchema, settings: ApiSettings) => readonly SchemaForm[];
  /** Restricts a request to one of its tools, by what the API offers and the model takes. */
  readonly onlyTool: (tool: string, request: Pick<LlmRequest, 'tools' | 'canBeForced'>) => OnlyTool;
  /** Not the SDK's `reasoning`, which also asks for summaries, or makes models think that would not. */
  readonly options: (
    request: Pick<LlmRequest, 'effort' | 'thoughts' | 'parallelToolCalls' | 'cache'>,
    only: OnlyTool,
    form: SchemaForm | undefined,
  ) => LanguageModelV4CallOptions['providerOptions'];
}

export interface ApiSettings {
  /** Whether the local server takes `response_format` with a schema. */
  readonly ollamaSchemas: Config['ollamaSchemas'];
}

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

/**
 * The parts of a request that let its model call only one tool, for an `only` message of the conversation. The list of
 * tools stays as it is: a change of it would lose the cache and, with some providers, the model's thoughts.
 */
export interface OnlyTool {
  /** In the place of the `only` message. */
  readonly messages: readonly LanguageModelV4Message[];
  readonly toolChoice?: LanguageModelV4CallOptions['toolChoice'];
  /** OpenAI's own means. */
  readonly allowedTools?: { readonly toolNames: [string]; readonly mode: 'required' };
}

/** Forces a choice of the tool, unless the model refuses that. */
export const forcedTool: ProviderApi['onlyTool'] = (toolName, { canBeForced }) =>
  canBeForced === false ? { messages: [] } : { messages: [], toolChoice: { type: 'tool', toolName } };

/** Works with every provider. */
export const MESSAGE_FORM = { kind: 'message' } as const satisfies SchemaForm;
