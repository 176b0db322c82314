import type { Config } from '#core/config.ts';
import type { Deps } from '#core/deps.ts';
import { createAiSdkLlm } from '#llm/ai-sdk-llm.ts';
import {
  blobParts,
  type HostDeps,
  hostParts,
  installParts,
  mailParts,
  tableParts,
  uploadFormParts,
  vaultParts,
} from './deps.ts';
import { NoSandbox } from './no-sandbox.ts';

/** All parts of {@link Deps}, apart from those that smaller functions take: their bundles hold no model providers. */
export function awsDeps(config: Config): Deps & HostDeps {
  const host = hostParts(config);
  const tables = tableParts(host);
  return {
    ...host,
    ...tables,
    ...blobParts(host),
    ...uploadFormParts(host),
    ...vaultParts({ ...host, ...tables }),
    ...installParts(host),
    ...mailParts(host),
    sandbox: new NoSandbox(),
    llm: createAiSdkLlm(config),
    gatewayUrl: config.baseUrl ?? '',
  };
}
