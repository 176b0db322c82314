import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isCompatible, LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import type { ModelPrice } from '#core/ports/model-table.ts';
import { ownPriceOf, readSettings, settingsSecretOf } from './compatible-providers.ts';
import { nameOf } from './providers/openai-compatible.ts';
import { either, keySecrets, type ModelWishes, mayUse, providersOf, rowOf } from './providers.ts';
import { type Access, accessTo, type Keys, mappedModel, transportOf } from './transports.ts';

/** A model to ask, with its key and transport. */
export type ModelChoice = Pick<LlmRequest, 'provider' | 'model' | 'apiKey' | 'transport'> & {
  /** The workspace's own price of it. @default - the one of the model table */
  readonly price?: ModelPrice;
};

/** A caller's `llm_credentials`. */
interface Credentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
}

/**
 * Returns the models to run an agent with, each with a key: the one that the caller requests, or else a list to fall
 * back on, with one model for each of the agent's providers that needs no key or that the workspace has a key for.
 *
 * Throws LLM_KEY_REQUIRED if no model has a key, INVALID_INPUT for a request that the agent or the platform does not
 * allow and for an invalid address of a key, UNPROCESSABLE if the agent's own model is invalid or unavailable.
 */
export async function chooseModels(
  { vault, config, modelTable }: Pick<Deps, 'vault' | 'config' | 'modelTable'>,
  { workspaceId, wishes, credentials = {} }: { workspaceId: string; wishes: ModelWishes; credentials?: Credentials },
): Promise<ModelChoice[]> {
  const supported = providersOf(wishes, config);
  const wanted = wantedProvider(credentials, wishes, supported);
  const providers = wanted === undefined ? supported : [wanted];
  // The caller's key is for the provider itself, and is never sent to an address of the workspace.
  const own: Keys | undefined =
    wanted !== undefined && credentials.api_key ? { [wanted]: { apiKey: credentials.api_key } } : undefined;
  const [keys] = await Promise.all([own ?? readKeys(vault, workspaceId, providers), modelTable.refresh()]);
  const choices: ModelChoice[] = [];
  let unmapped: PlatformError | undefined;
  for (const provider of providers) {
    const access = accessTo(provider, keys[provider], config);
    if (access === undefined) continue;
    const asked = choices.length === 0 ? credentials.model : undefined;
    const choice = choiceOf(provider, access, { wishes, asked });
    if ('problem' in choice) unmapped ??= choice.problem;
    else choices.push(choice);
    // No fallback: another provider does not have the model that the caller named.
    if (unmapped !== undefined && asked !== undefined) throw unmapped;
  }
  if (choices.length === 0) throw unmapped ?? unavailable(providers);
  return choices;
}

/** Returns the model of a provider, or an error if it is unavailable there. */
function choiceOf(
  provider: LlmProvider,
  access: Access,
  { wishes, asked }: { readonly wishes: ModelWishes; readonly asked: string | undefined },
): ModelChoice | { readonly problem: PlatformError } {
  const { apiKey, settings } = access;
  const model = modelFor(provider, wishes, { asked, access });
  if (model === undefined) return { problem: hasNoModel(provider) };
  const transport = transportOf(access, model);
  const price = settings && ownPriceOf(settings, model);
  if (transport !== 'unmapped') return { provider, model, apiKey, transport, ...(price && { price }) };
  return { problem: isNotReached(provider, model, { access, isAsked: asked !== undefined }) };
}

/** Determines the caller's provider: named explicitly, or from the format of the key or the model id. */
function wantedProvider(
  { api_key, provider, model }: Credentials,
  wishes: ModelWishes,
  supported: readonly LlmProvider[],
): LlmProvider | undefined {
  const allowed = supported.join(', ');
  if (provider !== undefined) {
    if (mayUse(wishes, supported, provider)) return provider;
    throw new PlatformError(
      'INVALID_INPUT',
      `"llm_credentials.provider" is ${provider}; this agent may use ${allowed || 'no provider that is available here'}.`,
    );
  }
  if (api_key) {
    const only = supported.length === 1 ? supported[0] : undefined;
    // Keys of many providers look like OpenAI's.
    const told = only !== undefined && isCompatible(only) ? only : (providerOfKey(api_key) ?? only);
    if (told !== undefined && supported.includes(told)) return told;
    throw new PlatformError(
      'INVALID_INPUT',
      told === undefined
        ? `"llm_credentials.provider" must name the provider of "llm_credentials.api_key": one of ${allowed}.`
        : `"llm_credentials.api_key" is a key of ${rowOf(told).title}; this agent may use ${allowed}.`,
    );
  }
  return supported.find((candidate) => model !== undefined && rowOf(candidate).ownModels?.test(model));
}

const providerOfKey = (key: string): LlmProvider | undefined =>
  LLM_PROVIDERS.find((provider) => rowOf(provider).key?.form.test(key));

/** Reads the keys of a workspace and their addresses in one request. */
async function readKeys(vault: Deps['vault'], workspaceId: string, providers: readonly LlmProvider[]): Promise<Keys> {
  const names = providers.flatMap((provider) => {
    if (isCompatible(provider)) return settingsSecretOf(nameOf(provider));
    const { key } = rowOf(provider);
    return key === null ? [] : [key.secret, key.addressSecret];
  });
  if (names.length === 0) return {};
  const values = await vault.read(workspaceId, names, true);
  const keys: { [Provider in LlmProvider]?: NonNullable<Keys[Provider]> } = {};
  for (const provider of providers) {
    if (isCompatible(provider)) {
      const stored = values[settingsSecretOf(nameOf(provider))];
      const settings = stored === undefined ? undefined : readSettings(stored);
      if (settings !== undefined) keys[provider] = { apiKey: settings.api_key, settings };
      continue;
    }
    const { key } = rowOf(provider);
    const apiKey = key && values[key.secret]?.trim();
    if (apiKey) keys[provider] = { apiKey, address: values[key.addressSecret]?.trim() || undefined };
  }
  return keys;
}

/** The error for providers none of which can be asked. */
function unavailable(providers: readonly LlmProvider[]): PlatformError {
  if (providers.length === 0)
    return new PlatformError('LLM_KEY_REQUIRED', 'This agent needs a local model server, but none is configured here.');
  const [firstOwn] = providers.filter(isCompatible);
  const secrets = keySecrets(providers);
  const titles = either(providers.map((provider) => rowOf(provider).title));
  const message =
    firstOwn === undefined
      ? `This agent needs an API key of ${titles}, and the workspace has no secret ${either(secrets)}.`
      : `This agent needs ${titles}, and the workspace has not set up ${either(providers.filter(isCompatible))}${secrets.length > 0 ? `, and has no secret ${either(secrets)}` : ''}.`;
  const hint =
    firstOwn === undefined
      ? 'Add the secret with PUT /workspaces/{id}/secrets, or send llm_credentials.api_key with the call.'
      : `Set it up with PUT /workspaces/{id}/providers/${nameOf(firstOwn)}, or with: platform providers set ${nameOf(firstOwn)}.`;
  return new PlatformError('LLM_KEY_REQUIRED', message, { hint });
}

/** Default model of a provider, for callers that name none. */
export const defaultModel = (provider: LlmProvider, { default_models }: ModelWishes): string | undefined =>
  default_models[provider] ?? rowOf(provider).defaultModel;

/** Chooses the first model that caller, agent or platform names, in this order (`docs/interface/calls.md#models`). */
function modelFor(
  provider: LlmProvider,
  { default_models }: ModelWishes,
  { asked, access }: { readonly asked: string | undefined; readonly access: Access },
): string | undefined {
  const model =
    asked ?? default_models[provider] ?? access.settings?.default_model ?? mappedModel(access, rowOf(provider));
  if (model === undefined || rowOf(provider).modelId.test(model)) return model;
  throw asked === undefined
    ? new PlatformError('UNPROCESSABLE', `The agent's default_models.${provider} is not a model id.`)
    : new PlatformError('INVALID_INPUT', '"llm_credentials.model" must be a model id: letters, digits and . _ : / @ -');
}

const hasNoModel = (provider: LlmProvider): PlatformError =>
  new PlatformError('UNPROCESSABLE', `No model is named for ${provider}: it has no default.`, {
    hint: 'Name one in default_models of the agent, in llm_credentials.model of the call, or as default_model of the provider.',
  });

function isNotReached(
  provider: LlmProvider,
  model: string,
  { access, isAsked }: { readonly access: Access; readonly isAsked: boolean },
): PlatformError {
  const names = Object.keys(access.setting?.models ?? {});
  return new PlatformError(
    isAsked ? 'INVALID_INPUT' : 'UNPROCESSABLE',
    `${isAsked ? '"llm_credentials.model"' : `The agent's default_models.${provider}`} is ${model}, which the operator of this platform has not configured. Available: ${either(names)}.`,
    { hint: 'Name one of these models, or have the operator add it to PLATFORM_TRANSPORTS.' },
  );
}
