import { createHash } from 'node:crypto';
import type { SandboxSpec } from '#core/ports/sandbox.ts';

/**
 * Returns the key that sessions must share to use one task in succession: the workspace that pays, bundle and layer,
 * the egress rules, the caller's addition ({@link SandboxSpec.kind}), and a digest of its secrets if its program stays. `undefined` for a session that needs a fresh
 * task, such as an installation.
 */
export async function reuseKeyOf(spec: SandboxSpec): Promise<string | undefined> {
  const { owner, bundle, layer, layerSha256, egress, egressTargets, purpose, kind, reuse } = spec;
  if (purpose !== 'run' || owner === undefined || kind === undefined) return undefined;
  const common = [owner, bundle, layer, layerSha256, egress, egressTargets, await kind(), reuse?.secrets];
  return createHash('sha256').update(JSON.stringify(common)).digest('hex');
}
