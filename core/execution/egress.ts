import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Egress } from '#core/ports/sandbox.ts';

/** Network access of an agent's runs. An agent with dependencies can always reach the platform, to call them. */
export const runEgress = (config: Deps['config'], { definition }: AgentVersion): Egress =>
  egressOf(config, (definition.manifest?.dependencies.length ?? 0) > 0);

/** Network access of an installation. Sandbox adapters add the package registries, even if runs have no network. */
export const installEgress = (config: Deps['config']): Egress => egressOf(config, true);

function egressOf({ sandboxEgress: setting }: Deps['config'], needsPlatform: boolean): Egress {
  if (setting === 'none' && needsPlatform) return { allow: [] };
  return typeof setting === 'string' ? setting : { allow: setting };
}
