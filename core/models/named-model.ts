import { PlatformError } from '#core/base/errors.ts';
import { isLlmProvider, LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';
import type { ProviderUrls } from './providers/row.ts';
import { type ModelWishes, mayUse, providersOf, rowOf } from './providers.ts';

/**
 * Reads the name of a model: `provider/model`, or the id of a model alone if that tells its provider, or if the agent may
 * use only one. Throws INVALID_INPUT that names `field` for a model that the agent may not use.
 */
export function modelNamed(
  text: string,
  { wishes, config, field }: { readonly wishes: ModelWishes; readonly config: ProviderUrls; readonly field: string },
): { readonly provider: LlmProvider; readonly model: string } {
  const supported = providersOf(wishes, config);
  const refused = (why: string) => new PlatformError('INVALID_INPUT', `${field}: ${why}`);
  const allowed = supported.join(', ') || 'no provider that is available here';
  const prefix = text.slice(0, Math.max(0, text.indexOf('/')));
  const named = isLlmProvider(prefix) ? prefix : undefined;
  const model = named === undefined ? text : text.slice(prefix.length + 1);
  const told = named ?? LLM_PROVIDERS.find((provider) => rowOf(provider).ownModels?.test(model));
  const provider = told ?? (supported.length === 1 ? supported[0] : undefined);
  if (provider === undefined) {
    throw refused(`must name the provider, too: <provider>/${model}. This agent may use ${allowed}.`);
  }
  if (!mayUse(wishes, supported, provider)) throw refused(`is a model of ${provider}; this agent may use ${allowed}.`);
  if (!rowOf(provider).modelId.test(model)) {
    throw refused('must be a model id: letters, digits and . _ : / @ -, with or without <provider>/ before it.');
  }
  return { provider, model };
}
