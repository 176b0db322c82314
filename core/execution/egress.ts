import { lackingEgress } from '#core/accounts/grants/rights.ts';
import type { ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Egress, EgressTargets } from '#core/ports/sandbox.ts';

/** Network access of an agent's runs. An agent with dependencies can always reach the platform, to call them. */
export const runEgress = (config: Deps['config'], { definition }: AgentVersion): Egress =>
  egressOf(config, (definition.manifest?.dependencies.length ?? 0) > 0);

/** Network access of an installation. Sandbox adapters add the package registries, even if runs have no network. */
export const installEgress = (config: Deps['config']): Egress => egressOf(config, true);

function egressOf({ sandboxEgress: setting }: Deps['config'], needsPlatform: boolean): Egress {
  if (setting === 'none' && needsPlatform) return { allow: [] };
  return typeof setting === 'string' ? setting : { allow: setting };
}

/** Targets of an agent's runs, after {@link checkEgress}; `undefined` if its manifest has none. */
export const egressTargets = (
  { egressPrivateRanges }: Pick<Deps['config'], 'egressPrivateRanges'>,
  { definition: { egress } }: AgentVersion,
): EgressTargets | undefined => egress && { targets: egress, privateRanges: egressPrivateRanges };

/**
 * Throws FORBIDDEN unless this platform opens the targets of an agent and the workspace allows them
 * (`docs/interface/egress.md`).
 *
 * @param foreign Agents of other workspaces in the run's chain, its own agent included.
 */
export async function checkEgress(
  deps: Pick<Deps, 'main' | 'config'>,
  agent: AgentVersion,
  {
    workspace,
    foreign,
  }: { readonly workspace: Pick<Workspace, 'id' | 'slug'>; readonly foreign: readonly ForeignAgent[] },
): Promise<void> {
  const { egress } = agent.definition;
  if (egress === undefined) return;
  // Loaded lazily: few agents connect to other ports, and smaller functions start faster.
  const { closedTarget } = await import('#core/outbound/egress-target.ts');
  const closed = closedTarget(deps.config, egress);
  if (closed !== undefined) throw new PlatformError('FORBIDDEN', `${refOf(agent)} cannot run here: ${closed}`);
  const { workspaceId, orgSlug: org, name, version, firstVersion } = agent;
  const isOwn = workspaceId === workspace.id;
  const agents = isOwn ? [...foreign, { workspaceId, org, name, version, firstVersion }] : foreign;
  const { targets, requests } = await lackingEgress(deps, workspace.id, agents, egress);
  if (targets.length === 0) return;
  throw new PlatformError(
    'FORBIDDEN',
    `The workspace "${workspace.slug}" has not allowed ${refOf(agent)} to connect to ${targets.join(', ')}.`,
    { hint: `An owner of the workspace can allow it: ${requests.join('; ')}` },
  );
}
