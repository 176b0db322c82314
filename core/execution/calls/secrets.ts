import { grantedSecrets } from '#core/accounts/grants/rights.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import type { ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { keySecrets, PROVIDERS } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import type { LlmCredentials } from '../input/call-input.ts';

type Secrets = Readonly<Record<string, string>>;

/** Whose secrets a run gets. */
interface SecretSource {
  /** The workspace that pays. */
  readonly workspaceId: string;
  /** The agents of other workspaces in the run's chain, its own included. */
  readonly foreign: readonly ForeignAgent[];
}

/**
 * The names of the secrets that an agent declares, each once (`docs/interface/sandbox.md#variables`). A program that names
 * its providers also gets their keys; loops and prompts never do.
 */
export function declaredNames({ definition }: AgentVersion): string[] {
  const { required_secrets: required, optional_secrets: optional, supported_providers: providers } = definition;
  const { hasProgram } = traitsOf(definition.execution_engine);
  const providerKeys = hasProgram && !providers.includes('any') ? keySecrets(providers as LlmProvider[]) : [];
  return [...new Set([...required, ...optional, ...providerKeys])];
}

/**
 * The secrets that the agent declares, by name, and no others of the workspace; for agents of other workspaces those that
 * were granted (`docs/interface/grants.md#secrets`). Throws MISSING_SECRETS if a required one is absent.
 */
export async function declaredSecrets(
  deps: Deps,
  agent: AgentVersion,
  { workspaceId, foreign }: SecretSource,
): Promise<Secrets> {
  const { granted, requestsFor } = await grantedSecrets(deps, workspaceId, foreign, declaredNames(agent));
  const values = await new SecretStore(deps, workspaceId).values([...granted, ...addressNames(granted)]);
  const missing = agent.definition.required_secrets.filter((name) => !(name in values));
  if (missing.length > 0)
    throw missingSecrets(missing, {
      requests: requestsFor(missing),
      isAbsent: missing.some((name) => granted.includes(name)),
    });
  return values;
}

/** The secrets with the addresses that provider keys of these names are for: a key goes nowhere else. */
const addressNames = (names: readonly string[]): string[] =>
  Object.values(PROVIDERS).flatMap(({ key }) => (key !== null && names.includes(key.secret) ? key.addressSecret : []));

/** Throws MISSING_SECRETS if a required secret was not granted, whether or not there is one. */
export async function checkGranted(deps: Pick<Deps, 'main'>, agent: AgentVersion, source: SecretSource): Promise<void> {
  const required = agent.definition.required_secrets;
  const { lacking, requestsFor } = await grantedSecrets(deps, source.workspaceId, source.foreign, required);
  if (lacking.length > 0) throw missingSecrets(lacking, { requests: requestsFor(lacking), isAbsent: false });
}

/**
 * The error for required secrets that a program would lack.
 *
 * @param requests Those that would grant what was not granted.
 * @param isAbsent Whether some were granted, or need no grant, and do not exist.
 */
export function missingSecrets(
  names: readonly string[],
  { requests, isAbsent }: { readonly requests: readonly string[]; readonly isAbsent: boolean },
): PlatformError {
  const hints = [
    ...(requests.length > 0 ? [`An owner of the workspace grants them: ${requests.join('; ')}`] : []),
    ...(isAbsent ? ['Add them with PUT /workspaces/{id}/secrets.'] : []),
  ];
  // Clients read the names between "not found in workspace: " and the full stop (docs/interface/errors.md#codes).
  return new PlatformError('MISSING_SECRETS', `Secrets not found in workspace: ${names.join(', ')}.`, {
    hint: hints.join(' '),
  });
}

/** Masks every secret that the run could print: its own, the caller's provider key, the models' keys, its service key. */
export const maskFor = ({
  secrets,
  credentials,
  models,
  serviceKey,
}: {
  readonly secrets: Secrets;
  readonly credentials: LlmCredentials | undefined;
  readonly models: readonly ModelChoice[];
  readonly serviceKey: string | undefined;
}): SecretMask =>
  new SecretMask({
    ...secrets,
    ...(credentials?.api_key && { LLM_API_KEY: credentials.api_key }),
    ...Object.fromEntries(models.map(({ provider, apiKey }) => [`${provider.toUpperCase()}_API_KEY`, apiKey ?? ''])),
    ...(serviceKey !== undefined && { PLATFORM_SERVICE_KEY: serviceKey }),
  });

/**
 * Variables of a sandbox with the secrets, and the caller's choice of provider and model, and the caller's key. The address
 * of the workspace's own key is none for the caller's.
 */
export function secretEnvironment(secrets: Secrets, credentials: LlmCredentials | undefined): Secrets {
  const { api_key, provider, model } = credentials ?? {};
  const hasOwnKey = (name: string) => api_key && provider && name === PROVIDERS[provider].key?.addressSecret;
  return {
    ...Object.fromEntries(Object.entries(secrets).filter(([name]) => !hasOwnKey(name))),
    ...(provider && { LLM_PROVIDER: provider }),
    ...(model && { LLM_MODEL: model }),
    ...(provider && api_key && { [`${provider.toUpperCase()}_API_KEY`]: api_key }),
  };
}
