import type { Deps } from '#core/ports/deps.ts';

/**
 * Returns `host:port` of the package registries that installations may use: those of `PLATFORM_INSTALL_HOSTS`, and of
 * the addresses configured for pip and npm.
 */
export const registryTargets = ({
  installHosts,
  pipIndexUrl,
  npmRegistry,
}: Pick<Deps['config'], 'installHosts' | 'pipIndexUrl' | 'npmRegistry'>): string[] => [
  ...installHosts,
  ...[pipIndexUrl, npmRegistry].filter((url) => url !== undefined).map(targetOf),
];

function targetOf(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
}
