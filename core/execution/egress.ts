import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Egress } from '#core/ports/sandbox.ts';

/** What the runs of an agent may connect to. An agent with dependencies always reaches the platform, to call them. */
export const runEgress = (config: Deps['config'], { definition }: AgentVersion): Egress =>
  egressOf(config, (definition.manifest?.dependencies.length ?? 0) > 0);

/** What an installation may connect to. The sandbox adapters add the package registries, even where runs reach nothing. */
export const installEgress = (config: Deps['config']): Egress => egressOf(config, true);

function egressOf({ sandboxEgress: setting }: Deps['config'], needsPlatform: boolean): Egress {
  if (setting === 'none' && needsPlatform) return { allow: [] };
  return typeof setting === 'string' ? setting : { allow: setting };
}
