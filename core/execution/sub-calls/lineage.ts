import type { SkillHome } from '#core/agents/skills/skill-refs.ts';
import type { Budget, CallingAgent, ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { MAX_HOPS } from '#core/manifest/definition.ts';
import { dependencyRef, refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';

/**
 * Position of a call in its chain of calls. A user's call starts a new chain ({@link topOfChain}); `checkSubCall`
 * builds the
 * lineage of an agent's call.
 */
export interface Lineage {
  /** Agents above, top first: `org/agent@v1`. */
  readonly chain: readonly string[];
  /** Absent at the top of a chain. */
  readonly parentRunId?: string;
  readonly rootRunId?: string;
  /** Maximum number of levels of calls below the called agent. */
  readonly maxHops: number;
  /** Budgets that count the calls of the called agent and those below it; empty at the top of a chain. */
  readonly budgets: readonly Budget[];
  /** Whether an agent above is in strict mode. */
  readonly isStrict: boolean;
  /** Tenant for which the agents above run. */
  readonly tenantId?: string | undefined;
  /** User whose call began the chain. */
  readonly userId?: string | undefined;
  /** Agents above that do not belong to the paying workspace. */
  readonly foreign: readonly ForeignAgent[];
  /** Workspace of the calling agent, for resolving its skill references; absent at the top of a chain. */
  readonly skillHome?: SkillHome;
  /** Epoch milliseconds until which the caller waits. */
  readonly deadline?: number;
}

/** Default of `manifest.per_call_downstream_cap` (`docs/interface/manifest.md#orchestration-section`). */
const DEFAULT_CAP = 50;

/**
 * Builds the lineage of a call by a user. Throws MAX_HOPS_TOO_LOW if the agent needs more levels.
 *
 * @param maxHops The header `X-Platform-Max-Hops`.
 */
export function topOfChain(agent: AgentVersion, maxHops?: number): Lineage {
  const lineage = {
    chain: [],
    maxHops: Math.min(maxHops ?? MAX_HOPS, MAX_HOPS),
    budgets: [],
    isStrict: false,
    foreign: [],
  };
  checkRequiredHops(agent, lineage.maxHops);
  return lineage;
}

/** Throws MAX_HOPS_TOO_LOW if the agent's `min_required_hops` is greater. */
export function checkRequiredHops(agent: AgentVersion, maxHops: number): void {
  const required = agent.definition.manifest?.min_required_hops ?? 0;
  if (maxHops >= required) return;
  throw new PlatformError(
    'MAX_HOPS_TOO_LOW',
    `${refOf(agent)} needs at least ${required} levels of calls below it (min_required_hops), and this call allows ${maxHops}.`,
    { hint: 'Call it with a greater X-Platform-Max-Hops, or from an agent whose max_hops is greater.' },
  );
}

/** Describes the agent as a caller of other agents. `workspace` owns the run and pays for it. */
export function callingAgent(agent: AgentVersion, workspace: Workspace, lineage: Lineage): CallingAgent {
  const { manifest } = agent.definition;
  return {
    chain: [...lineage.chain, refOf(agent)],
    agentWorkspaceId: agent.workspaceId,
    workspace,
    maxHops: Math.min(lineage.maxHops, manifest?.max_hops ?? lineage.maxHops),
    dependencies: (manifest?.dependencies ?? []).map(dependencyRef),
    perCallCap: manifest?.per_call_downstream_cap ?? DEFAULT_CAP,
    budgets: lineage.budgets,
    isStrict: lineage.isStrict || manifest?.orchestration_mode === 'strict',
    ...(lineage.tenantId !== undefined && { tenantId: lineage.tenantId }),
    ...(lineage.userId !== undefined && { userId: lineage.userId }),
    foreign: foreignAgents(agent, workspace, lineage),
  };
}

/** Returns the foreign agents of a run's chain, including the called agent. `workspace` pays for the run. */
export function foreignAgents(
  {
    workspaceId,
    orgSlug: org,
    name,
    version,
    firstVersion,
  }: Pick<AgentVersion, 'workspaceId' | 'orgSlug' | 'name' | 'version' | 'firstVersion'>,
  workspace: Pick<Workspace, 'id'>,
  lineage: Pick<Lineage, 'foreign'>,
): readonly ForeignAgent[] {
  if (workspaceId === workspace.id) return lineage.foreign;
  return [...lineage.foreign, { workspaceId, org, name, version, firstVersion }];
}
