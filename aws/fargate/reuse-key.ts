import { createHash } from 'node:crypto';
import type { SandboxSpec } from '#core/ports/sandbox.ts';

/**
 * Returns the key that sessions must share to use one task in succession: the workspace that pays, bundle and layer,
 * the egress rules, and the caller's addition ({@link SandboxSpec.kind}). `undefined` for a session that needs a fresh
 * task, such as an installation.
 */
export async function reuseKeyOf(spec: SandboxSpec): Promise<string | undefined> {
  const { owner, bundle, layer, layerSha256, egress, egressTargets, purpose, kind } = spec;
  if (purpose !== 'run' || owner === undefined || kind === undefined) return undefined;
  const common = [owner, bundle, layer, layerSha256, egress, egressTargets, await kind()];
  return createHash('sha256').update(JSON.stringify(common)).digest('hex');
}
