import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import { either, keySecrets, type ModelWishes, PROVIDERS, providersOf } from './providers.ts';
import { type Access, accessTo, mappedModel, transportOf } from './transports.ts';

/** A model to ask, with its key and transport. */
export type ModelChoice = Pick<LlmRequest, 'provider' | 'model' | 'apiKey' | 'transport'>;

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
  const wanted = wantedProvider(credentials, supported);
  const providers = wanted === undefined ? supported : [wanted];
  // The caller's key is for the provider itself, and is never sent to an address of the workspace.
  const own = wanted !== undefined && credentials.api_key ? { [wanted]: { apiKey: credentials.api_key } } : undefined;
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
  if (choices.length === 0) throw unmapped ?? keyRequired(providers);
  return choices;
}

/** Returns the model of a provider, or an error if it is unavailable there. */
function choiceOf(
  provider: LlmProvider,
  access: Access,
  { wishes, asked }: { readonly wishes: ModelWishes; readonly asked: string | undefined },
): ModelChoice | { readonly problem: PlatformError } {
  const { apiKey } = access;
  const model = modelFor(provider, wishes, { asked, access });
  const transport = transportOf(access, model);
  if (transport !== 'unmapped') return { provider, model, apiKey, transport };
  return { problem: isNotReached(provider, model, { access, isAsked: asked !== undefined }) };
}

/** Determines the caller's provider: named explicitly, or from the format of the key or the model id. */
function wantedProvider(
  { api_key, provider, model }: Credentials,
  supported: readonly LlmProvider[],
): LlmProvider | undefined {
  const allowed = supported.join(', ');
  if (provider !== undefined) {
    if (supported.includes(provider)) return provider;
    throw new PlatformError(
      'INVALID_INPUT',
      `"llm_credentials.provider" is ${provider}; this agent may use ${allowed || 'no provider that is available here'}.`,
    );
  }
  if (api_key) {
    const told = providerOfKey(api_key) ?? (supported.length === 1 ? supported[0] : undefined);
    if (told !== undefined && supported.includes(told)) return told;
    throw new PlatformError(
      'INVALID_INPUT',
      told === undefined
        ? `"llm_credentials.provider" must name the provider of "llm_credentials.api_key": one of ${allowed}.`
        : `"llm_credentials.api_key" is a key of ${PROVIDERS[told].title}; this agent may use ${allowed}.`,
    );
  }
  return supported.find((candidate) => model !== undefined && PROVIDERS[candidate].ownModels?.test(model));
}

const providerOfKey = (key: string): LlmProvider | undefined =>
  LLM_PROVIDERS.find((provider) => PROVIDERS[provider].key?.form.test(key));

type Keys = { readonly [Provider in LlmProvider]?: { readonly apiKey: string; readonly address?: string } };

/** Reads the keys of a workspace and their addresses in one request. */
async function readKeys(vault: Deps['vault'], workspaceId: string, providers: readonly LlmProvider[]): Promise<Keys> {
  const secrets = providers.flatMap((provider) => PROVIDERS[provider].key ?? []);
  if (secrets.length === 0) return {};
  const names = secrets.flatMap(({ secret, addressSecret }) => [secret, addressSecret]);
  const values = await vault.read(workspaceId, names, true);
  const keys: { [Provider in LlmProvider]?: NonNullable<Keys[Provider]> } = {};
  for (const provider of providers) {
    const { key } = PROVIDERS[provider];
    const apiKey = key && values[key.secret]?.trim();
    if (apiKey) keys[provider] = { apiKey, address: values[key.addressSecret]?.trim() || undefined };
  }
  return keys;
}

function keyRequired(providers: readonly LlmProvider[]): PlatformError {
  if (providers.length === 0)
    return new PlatformError('LLM_KEY_REQUIRED', 'This agent needs a local model server, but none is configured here.');
  const names = either(providers.map((provider) => PROVIDERS[provider].title));
  return new PlatformError(
    'LLM_KEY_REQUIRED',
    `This agent needs an API key of ${names}, and the workspace has no secret ${either(keySecrets(providers))}.`,
    { hint: 'Add the secret with PUT /workspaces/{id}/secrets, or send llm_credentials.api_key with the call.' },
  );
}

/** Default model of a provider, for callers that name none. */
export const defaultModel = (provider: LlmProvider, { default_models }: ModelWishes): string =>
  default_models[provider] ?? PROVIDERS[provider].defaultModel;

/** Chooses the first model that caller, agent or platform names, in this order (`docs/interface/calls.md#models`). */
function modelFor(
  provider: LlmProvider,
  { default_models }: ModelWishes,
  { asked, access }: { readonly asked: string | undefined; readonly access: Access },
): string {
  const model = asked ?? default_models[provider] ?? mappedModel(access, PROVIDERS[provider].defaultModel);
  if (PROVIDERS[provider].modelId.test(model)) return model;
  throw asked === undefined
    ? new PlatformError('UNPROCESSABLE', `The agent's default_models.${provider} is not a model id.`)
    : new PlatformError('INVALID_INPUT', '"llm_credentials.model" must be a model id: letters, digits and . _ : / @ -');
}

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
