import { memoizeWeak } from '#core/base/memoize-weak.ts';
import { answererOf, keyHint } from '#core/models/providers.ts';
import { LlmFailure, type LlmMessage, type LlmRequest, type LlmTool } from '#core/ports/llm.ts';
import { apiOf } from './providers.ts';
import type { ChosenForm } from './schema-for.ts';
import { type KeyAliases, keyAliases, looseToolSchema, withAliases } from './tool-schema.ts';

/**
 * Makes a request acceptable to its provider, whatever authors, callers, tools and models wrote
 * (`docs/models.md#what-providers-refuse`): blank texts and property names of tools are replaced. {@link sentTools}
 * follows once the form of a schema is chosen, and `wellFormedBody` when the request is written.
 *
 * Throws LLM_KEY_REQUIRED for a key that cannot be part of a header.
 */
export function acceptable(request: LlmRequest): LlmRequest {
  const { messages, system = '', tools, apiKey } = request;
  const key = apiKey?.trim();
  if (key && !/^[\x21-\x7e]+$/.test(key)) throw unusableKey(request);
  return {
    ...request,
    ...(apiKey !== undefined && { apiKey: key }),
    system: isBlank(system) ? undefined : system,
    messages: messages.flatMap(withoutBlanks),
    ...(tools && { tools: tools.map((tool) => withKeys(tool, aliasesOf(request, tool))) }),
  };
}

const unusableKey = (request: LlmRequest): LlmFailure =>
  new LlmFailure(
    'key',
    `The API key for ${answererOf(request)} has characters that no key has, such as a line break.`,
    { hint: keyHint(request.provider) },
  );

const isBlank = (text: string): boolean => text.trim() === '';

/** Stands for a text that a provider would refuse. */
const EMPTY = '(empty)';

function withoutBlanks(message: LlmMessage): LlmMessage[] {
  switch (message.role) {
    case 'user': {
      const { shared, text } = message;
      if (!isBlank(text) && (shared === undefined || !isBlank(shared))) return [message];
      const known = shared === undefined || isBlank(shared) ? undefined : shared;
      return [{ ...message, shared: known, text: isBlank(text) ? EMPTY : text }];
    }
    case 'assistant':
      return isBlank(message.text) && message.toolCalls.length === 0 ? [] : [message];
    case 'tool': {
      if (!message.results.some(({ text }) => isBlank(text))) return [message];
      const results = message.results.map((result) => (isBlank(result.text) ? { ...result, text: EMPTY } : result));
      return [{ ...message, results }];
    }
    case 'only':
      return [message];
  }
}

const NONE: KeyAliases = new Map();

/** Returns the aliases for the properties of a tool's parameters that the provider does not accept. */
export function aliasesOf({ provider }: Pick<LlmRequest, 'provider'>, { inputSchema }: LlmTool): KeyAliases {
  const { propertyName } = apiOf(provider);
  return propertyName === undefined ? NONE : keyAliases(propertyName)(inputSchema);
}

const renamed = memoizeWeak((aliases: KeyAliases) =>
  memoizeWeak((tool: LlmTool): LlmTool => ({ ...tool, inputSchema: withAliases(tool.inputSchema, aliases) })),
);

const withKeys = (tool: LlmTool, aliases: KeyAliases): LlmTool => (aliases.size === 0 ? tool : renamed(aliases)(tool));

const loose = memoizeWeak(
  (tool: LlmTool): LlmTool => ({ ...tool, inputSchema: looseToolSchema(tool.inputSchema), isStrict: false }),
);

/** Returns the tools with the schemas that are sent: in the chosen form for a strict one. */
export const sentTools = (tools: LlmRequest['tools'], form: ChosenForm | undefined): LlmRequest['tools'] =>
  tools?.map((tool) => {
    const strict = tool.isStrict && form !== undefined && 'schema' in form.form ? form.form.schema : undefined;
    return strict === undefined ? loose(tool) : { ...tool, inputSchema: strict };
  });
