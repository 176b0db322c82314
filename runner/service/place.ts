import type { SandboxSpec } from '#core/ports/sandbox.ts';
import type { BootDocument } from '#core/ports/service-host.ts';

/** Services have no CPU time limit. The value is finite because the kernel counts nanoseconds. */
const CPU_SECONDS = 10 * 365 * 24 * 3600;

/** Returns the sandbox spec of an app. */
export const specOf = (boot: BootDocument): SandboxSpec => ({
  bundle: boot.bundle?.key,
  layer: boot.layer?.key,
  layerSha256: boot.layer?.sha256,
  owner: boot.workspaceId,
  env: { ...boot.env, ...boot.secrets },
  egress: boot.egress,
  egressTargets: boot.egressTargets,
  purpose: 'service',
  limits: { ...boot.limits, cpuSeconds: CPU_SECONDS },
});
