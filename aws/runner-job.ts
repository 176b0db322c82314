import { isIP } from 'node:net';
import type { Config } from '#core/base/config.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import type { BlobLink, RunnerJob } from '#runner/protocol.ts';

/** Makes addresses by which who has no rights of his own gets a blob. */
export interface BlobLinks {
  get(key: string): Promise<string>;
}

/** What the runner's image is built with: part of what names a layer, and of what `status` shows. */
export const IMAGE_INTERPRETERS = { python: '3.12', node: '24' } as const;
/** Of the runner's image. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** A session as a runner takes it, with leave to fetch bundle and layer. */
export async function runnerJob(
  { config, links }: { readonly config: Config; readonly links: BlobLinks },
  { bundle, layer, env, egress, purpose, limits }: SandboxSpec,
  { token, lifetimeMs }: Pick<RunnerJob, 'token' | 'lifetimeMs'>,
): Promise<RunnerJob> {
  const linkTo = async (key: string | undefined): Promise<BlobLink | undefined> =>
    key === undefined ? undefined : { key, url: await links.get(key) };
  const [bundleLink, layerLink] = await Promise.all([linkTo(bundle), linkTo(layer)]);
  return {
    token,
    lifetimeMs,
    bundle: bundleLink,
    layer: layerLink,
    env,
    egress,
    purpose,
    limits,
    gateway: gatewayOf(config),
    registries: purpose === 'install' ? registriesOf(config) : undefined,
  };
}

/** An address in figures is one that the rules of egress may close; a name leads to API Gateway, which is public. */
function gatewayOf({ baseUrl }: Config): RunnerJob['gateway'] {
  if (baseUrl === undefined) return undefined;
  const { hostname, port, protocol } = new URL(baseUrl);
  if (isIP(hostname) === 0) return undefined;
  return { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
}

const registriesOf = ({ pipIndexUrl, npmRegistry, installHosts }: Config): RunnerJob['registries'] => ({
  env: {
    PIP_CERT: CERTIFICATES,
    npm_config_cafile: CERTIFICATES,
    ...(pipIndexUrl && { PIP_INDEX_URL: pipIndexUrl }),
    ...(npmRegistry && { npm_config_registry: npmRegistry }),
  },
  allowHosts: installHosts,
});
