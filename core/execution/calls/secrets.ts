import { grantedSecrets } from '#core/accounts/grants/rights.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import type { ForeignAgent } from '#core/base/caller.ts';
import { isConnectionSecret } from '#core/base/connection-names.ts';
import { PlatformError } from '#core/base/errors.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { keySecrets, maskNameOf, rowOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isCompatible, LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import type { LlmCredentials } from '../input/call-input.ts';
import { eventSecret } from '../sub-calls/run-context.ts';
import type { SearchKey } from '../web/search.ts';

type Secrets = Readonly<Record<string, string>>;

/** Sources of a run's secrets. */
interface SecretSource {
  /** Workspace that pays for the run. */
  readonly workspaceId: string;
  /** Agents of other workspaces in the run's chain, including its own agent. */
  readonly foreign: readonly ForeignAgent[];
  /** User whose call began the chain. @default - none */
  readonly userId?: string | undefined;
}

/**
 * Returns the names of the secrets that an agent declares, without duplicates (`docs/interface/sandbox.md#variables`).
 * Programs also get the keys of the providers that they name; loops and prompts never do.
 */
export function declaredNames({ definition }: AgentVersion): string[] {
  const { required_secrets: required, optional_secrets: optional, supported_providers: providers } = definition;
  const { hasProgram } = traitsOf(definition.execution_engine);
  const providerKeys = hasProgram && !providers.includes('any') ? keySecrets(providers as LlmProvider[]) : [];
  return [...new Set([...required, ...optional, ...providerKeys])];
}

/**
 * Reads the secrets that the agent declares, by name; for agents of other workspaces, only granted ones
 * (`docs/interface/grants.md#secrets`). Throws MISSING_SECRETS if a required one is absent.
 */
export async function declaredSecrets(
  deps: Deps,
  agent: AgentVersion,
  { workspaceId, foreign, userId }: SecretSource,
): Promise<Secrets> {
  const { granted, requestsFor } = await grantedSecrets(deps, workspaceId, foreign, declaredNames(agent));
  const stored = granted.filter((name) => !isConnectionSecret(name));
  let values: Secrets = await new SecretStore(deps, workspaceId).values([...stored, ...addressNames(stored)]);
  if (stored.length < granted.length) {
    // Loaded lazily: few agents use connections, and smaller functions start faster.
    const { connectionValues } = await import('./connections.ts');
    values = { ...values, ...(await connectionValues(deps, agent, { workspaceId, userId }, granted)) };
  }
  const missing = agent.definition.required_secrets.filter((name) => !(name in values));
  if (missing.length > 0)
    throw missingSecrets(missing, {
      requests: requestsFor(missing),
      isAbsent: missing.some((name) => granted.includes(name)),
    });
  return values;
}

/** Returns the secrets that hold the base URLs for these provider keys: a key is only sent to its own base URL. */
const addressNames = (names: readonly string[]): string[] =>
  LLM_PROVIDERS.flatMap((provider) => {
    const { key } = rowOf(provider);
    return key !== null && names.includes(key.secret) ? key.addressSecret : [];
  });

/** Throws MISSING_SECRETS if a required secret was not granted, whether or not it exists. */
export async function checkGranted(deps: Pick<Deps, 'main'>, agent: AgentVersion, source: SecretSource): Promise<void> {
  const required = agent.definition.required_secrets;
  const { lacking, requestsFor } = await grantedSecrets(deps, source.workspaceId, source.foreign, required);
  if (lacking.length > 0) throw missingSecrets(lacking, { requests: requestsFor(lacking), isAbsent: false });
}

/**
 * Builds the error for required secrets that a program would lack.
 *
 * @param requests Requests to grant the missing grants.
 * @param isAbsent Whether some secrets are granted, or need no grant, but do not exist.
 */
export function missingSecrets(
  names: readonly string[],
  { requests, isAbsent }: { readonly requests: readonly string[]; readonly isAbsent: boolean },
): PlatformError {
  const hints = [
    ...(requests.length > 0 ? [`An owner of the workspace can grant them: ${requests.join('; ')}`] : []),
    ...(isAbsent ? ['Add them with PUT /workspaces/{id}/secrets.'] : []),
  ];
  // Clients parse the names between "not found in workspace: " and the period (docs/interface/errors.md#codes).
  return new PlatformError('MISSING_SECRETS', `Secrets not found in workspace: ${names.join(', ')}.`, {
    hint: hints.join(' '),
  });
}

/**
 * Builds a mask for every secret that the run could print: its own, the caller's provider key, model keys, service
 * key, and the addresses of its events.
 */
export const maskFor = ({
  secrets,
  credentials,
  models,
  serviceKey,
  search,
  isDurable,
}: {
  readonly secrets: Secrets;
  readonly credentials: LlmCredentials | undefined;
  readonly models: readonly ModelChoice[];
  readonly serviceKey: string | undefined;
  readonly search: SearchKey | undefined;
  readonly isDurable: boolean;
}): SecretMask =>
  new SecretMask({
    ...secrets,
    ...(credentials?.api_key && { LLM_API_KEY: credentials.api_key }),
    ...Object.fromEntries(models.map(({ provider, apiKey }) => [maskNameOf(provider), apiKey ?? ''])),
    ...(search && { [`${search.provider.toUpperCase()}_API_KEY`]: search.apiKey }),
    ...(serviceKey !== undefined && { PLATFORM_SERVICE_KEY: serviceKey }),
    ...(serviceKey !== undefined && isDurable && { EVENT_URL: eventSecret(serviceKey) }),
  });

/**
 * Returns the sandbox variables for secrets and for the caller's provider, model and key. If the caller brings a key,
 * the
 * base URL of the workspace's own key does not apply and is dropped.
 */
export function secretEnvironment(secrets: Secrets, credentials: LlmCredentials | undefined): Secrets {
  const { api_key, provider, model } = credentials ?? {};
  const hasOwnKey = (name: string) => api_key && provider && name === rowOf(provider).key?.addressSecret;
  return {
    ...Object.fromEntries(Object.entries(secrets).filter(([name]) => !hasOwnKey(name))),
    ...(provider && { LLM_PROVIDER: provider }),
    ...(model && { LLM_MODEL: model }),
    // Anyone chooses the name of a compatible provider: it must not become the name of a variable.
    ...(provider && api_key && !isCompatible(provider) && { [`${provider.toUpperCase()}_API_KEY`]: api_key }),
  };
}
