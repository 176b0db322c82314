import type { Deps } from '#core/ports/deps.ts';

type RegistrySetting = 'pipIndexUrl' | 'npmRegistry' | 'pythonDownloads';

/**
 * Variables with which pip, npm and uv use these registries.
 *
 * @param certificates Path of the machine's trust store, used instead of the certificates that come with them. @default - theirs
 */
export const registryEnvironment = (
  { pipIndexUrl, npmRegistry, pythonDownloads }: Pick<Deps['config'], RegistrySetting>,
  certificates?: string,
): Record<string, string> => ({
  ...(certificates && { PIP_CERT: certificates, npm_config_cafile: certificates, SSL_CERT_FILE: certificates }),
  ...(pipIndexUrl && { PIP_INDEX_URL: pipIndexUrl }),
  ...(npmRegistry && { npm_config_registry: npmRegistry }),
  ...(pythonDownloads && { UV_PYTHON_DOWNLOADS_JSON_URL: pythonDownloads }),
});

/**
 * Returns `host:port` of the package registries that installations may use: those of `PLATFORM_INSTALL_HOSTS`, and of
 * the addresses configured for pip and npm.
 */
export const registryTargets = ({
  installHosts,
  pipIndexUrl,
  npmRegistry,
  pythonDownloads,
}: Pick<Deps['config'], 'installHosts' | RegistrySetting>): string[] => [
  ...installHosts,
  ...[pipIndexUrl, npmRegistry, pythonDownloads].filter((url) => url !== undefined).map(targetOf),
];

function targetOf(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
}
