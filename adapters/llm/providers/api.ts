import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Message } from '@ai-sdk/provider';
import type { Config } from '#core/base/config.ts';
import type { JsonSchema, LlmRequest } from '#core/ports/llm.ts';
import type { ProviderEndpoint } from '../endpoints.ts';
import type { StrictDialect } from '../strict-schema.ts';

export type ModelFactory = (request: LlmRequest, wire: ProviderEndpoint) => LanguageModelV4;

/** Differences between the providers' APIs, in terms of the AI SDK. */
export interface ProviderApi {
  /** Loads the AI SDK's package of the provider. */
  readonly load: (config: ApiSettings) => Promise<ModelFactory>;
  /** Whether the API has a mode that forces any JSON object as the answer. */
  readonly hasJsonMode: boolean;
  /** Whether tools that are not strict must be declared so. */
  readonly declaresLooseTools: boolean;
  /** Whether the API accepts lists of parts in messages, and files in tool results. */
  readonly takesParts: boolean;
  /** Whether requests mark the parts for the provider's cache (`docs/models.md#caching`). */
  readonly marksCache: boolean;
  /** Names of properties that the API accepts in schemas. @default - any */
  readonly propertyName?: RegExp;
  /** Whether its models may write calls of tools as text, which the server should read. @default false */
  readonly writesCalls?: boolean;
  /** JSON Schema subset of strict tools. @default - the API has no strict tools */
  readonly strictTools?: StrictDialect;
  /** Returns the forms of an answer's schema, strictest first. The last one always works. */
  readonly answerForms: (model: string, schema: JsonSchema, settings: ApiSettings) => readonly SchemaForm[];
  /** Restricts a request to one of its tools, depending on the API and the model. */
  readonly onlyTool: (tool: string, request: Pick<LlmRequest, 'tools' | 'canBeForced'>) => OnlyTool;
  /**
   * Provider options. Replaces the SDK's `reasoning`, which also requests summaries, or enables thinking in models that
   * have it off by default.
   */
  readonly options: (
    request: Pick<LlmRequest, 'effort' | 'thoughts' | 'parallelToolCalls' | 'cache'>,
    only: OnlyTool,
    form: SchemaForm | undefined,
  ) => LanguageModelV4CallOptions['providerOptions'];
}

export interface ApiSettings {
  /** Whether the local server supports `response_format` with a schema. */
  readonly ollamaSchemas: Config['ollamaSchemas'];
}

/**
 * Ways to send a provider the schema of an answer, or of a tool's parameters (`docs/models.md#schemas`):
 *
 * - `native`: the provider enforces it. `isAlsoTold`: it may ignore it, so that the message contains it, too.
 * - `guide`: the provider shows it to the model, and enforces JSON only. OpenAI.
 * - `tool`: the model answers by calling a tool with that schema. Anthropic.
 * - `message`: the message contains it.
 * - `loose`: a tool that is not strict.
 */
export type SchemaForm =
  | { readonly kind: 'native' | 'guide' | 'tool'; readonly schema: JsonSchema; readonly isAlsoTold?: true }
  | { readonly kind: 'message' | 'loose' };

/**
 * The parts of a request that restrict its model to one tool, for an `only` message of the conversation. The list of
 * tools stays unchanged: changing it would invalidate the cache and, with some providers, the model's thinking.
 */
export interface OnlyTool {
  /** Messages that replace the `only` message. */
  readonly messages: readonly LanguageModelV4Message[];
  readonly toolChoice?: LanguageModelV4CallOptions['toolChoice'];
  /** OpenAI's own setting. */
  readonly allowedTools?: { readonly toolNames: [string]; readonly mode: 'required' };
}

/** Forces the tool choice, unless the model rejects that. */
export const forcedTool: ProviderApi['onlyTool'] = (toolName, { canBeForced }) =>
  canBeForced === false ? { messages: [] } : { messages: [], toolChoice: { type: 'tool', toolName } };

/** Works with every provider. */
export const MESSAGE_FORM = { kind: 'message' } as const satisfies SchemaForm;
