import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import { either, keySecrets, type ModelWishes, PROVIDERS, providersOf } from './providers.ts';
import { type Access, accessTo, mappedModel, transportOf } from './transports.ts';

/** A model to ask, with the key for it and the way to it. */
export type ModelChoice = Pick<LlmRequest, 'provider' | 'model' | 'apiKey' | 'transport'>;

/** A caller's `llm_credentials`. */
interface Credentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
}

/**
 * The models to run an agent with, each with a key: the one that the caller asks for, else one for each of the agent's
 * providers that the workspace has a key for, or that needs none, to fall back on.
 *
 * Throws LLM_KEY_REQUIRED when there is no key for any, INVALID_INPUT for a wish that the agent or the platform does not
 * allow and for a wrong address beside a key, UNPROCESSABLE when the agent's own model is no model id or not to be had.
 */
export async function chooseModels(
  { vault, config, modelTable }: Pick<Deps, 'vault' | 'config' | 'modelTable'>,
  { workspaceId, wishes, credentials = {} }: { workspaceId: string; wishes: ModelWishes; credentials?: Credentials },
): Promise<ModelChoice[]> {
  const supported = providersOf(wishes, config);
  const wanted = wantedProvider(credentials, supported);
  const providers = wanted === undefined ? supported : [wanted];
  // Their key is for the provider itself, and never goes to an address of the workspace.
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
    // Another provider does not have the model that the caller named.
    if (unmapped !== undefined && asked !== undefined) throw unmapped;
  }
  if (choices.length === 0) throw unmapped ?? keyRequired(providers);
  return choices;
}

/** The model of a provider, or why it cannot be had there. */
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

/** The caller's provider: named, or told by the form of the key, or the model's. */
function wantedProvider(
  { api_key, provider, model }: Credentials,
  supported: readonly LlmProvider[],
): LlmProvider | undefined {
  const allowed = supported.join(', ');
  if (provider !== undefined) {
    if (supported.includes(provider)) return provider;
    throw new PlatformError(
      'INVALID_INPUT',
      `"llm_credentials.provider" is ${provider}; this agent may use ${allowed || 'no provider that there is here'}.`,
    );
  }
  if (api_key) {
    const told = providerOfKey(api_key) ?? (supported.length === 1 ? supported[0] : undefined);
    if (told !== undefined && supported.includes(told)) return told;
    throw new PlatformError(
      'INVALID_INPUT',
      told === undefined
        ? `"llm_credentials.provider" must say whose key "llm_credentials.api_key" is: one of ${allowed}.`
        : `"llm_credentials.api_key" is a key of ${PROVIDERS[told].title}; this agent may use ${allowed}.`,
    );
  }
  return supported.find((candidate) => model !== undefined && PROVIDERS[candidate].ownModels?.test(model));
}

const providerOfKey = (key: string): LlmProvider | undefined =>
  LLM_PROVIDERS.find((provider) => PROVIDERS[provider].key?.form.test(key));

type Keys = { readonly [Provider in LlmProvider]?: { readonly apiKey: string; readonly address?: string } };

/** The keys of a workspace, and the addresses that they are for: one request for both. */
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
    return new PlatformError(
      'LLM_KEY_REQUIRED',
      'This agent runs on a local model server only, and there is none here.',
    );
  const names = either(providers.map((provider) => PROVIDERS[provider].title));
  return new PlatformError(
    'LLM_KEY_REQUIRED',
    `This agent needs an API key of ${names}, and the workspace has no secret ${either(keySecrets(providers))}.`,
    { hint: 'Add the secret with PUT /workspaces/{id}/secrets, or send llm_credentials.api_key with the call.' },
  );
}

/** The model of a provider for callers who name none. */
export const defaultModel = (provider: LlmProvider, { default_models }: ModelWishes): string =>
  default_models[provider] ?? PROVIDERS[provider].defaultModel;

/** Caller, agent, platform: the first that names one (`docs/interface/calls.md#models`). */
function modelFor(
  provider: LlmProvider,
  { default_models }: ModelWishes,
  { asked, access }: { readonly asked: string | undefined; readonly access: Access },
): string {
  const model = asked ?? default_models[provider] ?? mappedModel(access, PROVIDERS[provider].defaultModel);
  if (PROVIDERS[provider].modelId.test(model)) return model;
  throw asked === undefined
    ? new PlatformError('UNPROCESSABLE', `The agent's default_models.${provider} is no model id.`)
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
    `${isAsked ? '"llm_credentials.model"' : `The agent's default_models.${provider}`} is ${model}, which the operator of this platform has not set up. There is ${either(names)}.`,
    { hint: 'Name one of these models, or have the operator add it to PLATFORM_TRANSPORTS.' },
  );
}
