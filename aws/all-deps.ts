import type { Deps } from '#core/ports/deps.ts';
import { createAiSdkLlm } from '#llm/ai-sdk-llm.ts';
import type { AwsConfig } from './config.ts';
import {
  blobParts,
  type HostDeps,
  hostParts,
  installParts,
  mailParts,
  sandboxParts,
  tableParts,
  uploadFormParts,
  vaultParts,
} from './deps.ts';

/** All of {@link Deps}. Smaller functions take single parts from `deps.ts`, so that their bundles hold no model providers. */
export function awsDeps(config: AwsConfig): Deps & HostDeps {
  const host = hostParts(config);
  const tables = tableParts(host);
  const blobs = blobParts(host);
  return {
    ...host,
    ...tables,
    ...blobs,
    ...uploadFormParts(host),
    ...vaultParts({ ...host, ...tables }),
    ...installParts(host),
    ...mailParts(host),
    ...sandboxParts({ ...host, ...blobs }),
    llm: createAiSdkLlm(config),
    gatewayUrl: config.baseUrl ?? '',
  };
}
