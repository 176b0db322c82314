import type { Config } from '#core/base/config.ts';
import { registryEnvironment, registryTargets } from '#core/manifest/bundle/registries.ts';
import type { BlobLinks } from '#core/ports/blobs.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { gatewayOf } from '#runner/sandbox/gateway-address.ts';
import type { BlobLink, RunnerJob } from '#runner/server/protocol.ts';

/** Interpreter versions of the runner's image: part of a layer's name, and shown by `status`. */
export const IMAGE_INTERPRETERS = { python: '3.12', node: '24' } as const;
/** Trust store of the runner's image. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** Maximum use of a sandbox, and the default if the spec has no deadline. */
export const MAX_USE_MS = 3_600_000;
/** Maximum use of a MicroVM: AWS ends one after eight hours. */
export const MAX_VM_MS = 8 * 3_600_000 - 60_000;
/** How long past its use a runner lives before it ends by itself: its caller should have ended it. */
export const LIFETIME_GRACE_MS = 30_000;

/** Returns the session job for a runner, with links to bundle and layer. */
export async function runnerJob(
  { config, links }: { readonly config: Config; readonly links: BlobLinks },
  { bundle, layer, layerSha256, env, egress, egressTargets, purpose, limits, reuse }: SandboxSpec,
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
    layerSha256,
    env,
    egress,
    egressTargets,
    purpose,
    limits,
    gateway: gatewayOf(config.callUrl ?? config.baseUrl),
    registries: purpose === 'install' ? registriesOf(config) : undefined,
    reuse: reuse && { idleMs: reuse.idleMs, maxUses: reuse.maxUses },
  };
}

const registriesOf = (config: Config): RunnerJob['registries'] => ({
  env: registryEnvironment(config, CERTIFICATES),
  allowHosts: registryTargets(config),
});
