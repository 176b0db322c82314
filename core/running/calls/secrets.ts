import { SecretStore } from '#core/accounts/secrets/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { secretNames } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import { SecretMask } from '#core/runs/masking.ts';
import type { LlmCredentials } from '../input/call-input.ts';

type Secrets = Readonly<Record<string, string>>;

/**
 * The secrets that the agent declares, by name, and no others of the workspace (`docs/interface/sandbox.md#variables`).
 * A program that names its providers also gets their keys; loops and prompts never do. Throws MISSING_SECRETS if a
 * required one is absent.
 */
export async function declaredSecrets(deps: Deps, { definition }: AgentVersion, workspaceId: string): Promise<Secrets> {
  const { required_secrets: required, optional_secrets: optional, supported_providers: providers } = definition;
  const isProgram = definition.execution_engine === 'code_runtime';
  const providerKeys = isProgram && !providers.includes('any') ? secretNames(providers as LlmProvider[]) : [];
  const values = await new SecretStore(deps, workspaceId).values([...required, ...optional, ...providerKeys]);
  const missing = required.filter((name) => !(name in values));
  if (missing.length > 0) {
    // Clients read the names between "not found in workspace: " and the full stop (docs/interface/errors.md#codes).
    throw new PlatformError('MISSING_SECRETS', `Secrets not found in workspace: ${missing.join(', ')}.`, {
      hint: 'Add them with PUT /workspaces/{id}/secrets.',
    });
  }
  return values;
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

/** Variables of a sandbox with the caller's choice of provider and model, and the caller's key. */
export function credentialEnvironment(credentials: LlmCredentials | undefined): Secrets {
  const { api_key, provider, model } = credentials ?? {};
  return {
    ...(provider && { LLM_PROVIDER: provider }),
    ...(model && { LLM_MODEL: model }),
    ...(provider && api_key && { [`${provider.toUpperCase()}_API_KEY`]: api_key }),
  };
}
