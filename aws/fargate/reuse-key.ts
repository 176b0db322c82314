import { createHash } from 'node:crypto';
import type { SandboxSpec } from '#core/ports/sandbox.ts';

/**
 * Names what sessions must have in common to use one task, one after the other: the workspace that pays, bundle and layer, what
 * they may connect to, and what the caller adds ({@link SandboxSpec.kind}). `undefined` for one that has its task to itself, such
 * as an installation.
 */
export async function reuseKeyOf(spec: SandboxSpec): Promise<string | undefined> {
  const { owner, bundle, layer, layerSha256, egress, purpose, kind } = spec;
  if (purpose !== 'run' || owner === undefined || kind === undefined) return undefined;
  const common = [owner, bundle, layer, layerSha256, egress, await kind()];
  return createHash('sha256').update(JSON.stringify(common)).digest('hex');
}
