import type { ForeignAgent } from '#core/base/caller.ts';

/** Parts of a workspace that a run's key can give access to. */
export const SCOPES = ['messages', 'storage', 'tasks'] as const;
export type Scope = (typeof SCOPES)[number];

/** Permissions that an owner of a workspace gives to an agent of another one (`docs/interface/grants.md`). */
export interface Grant {
  /** `org/agent`. */
  readonly agent: string;
  readonly agentWorkspaceId: string;
  /** See {@link ForeignAgent.firstVersion}. */
  readonly firstVersion: number;
  readonly version: number | 'all';
  /** Names of secrets, sorted. */
  readonly secrets: readonly string[];
  /** Sorted. */
  readonly scopes: readonly Scope[];
  /** Id of a user. */
  readonly grantedBy: string;
  /** ISO 8601. */
  readonly grantedAt: string;
  /** A new UUID after each change. */
  readonly revision: string;
}

/** Whether the grant is for this version of the agent, not for an earlier agent of the same name. */
export const isFor = ({ version, firstVersion }: Grant, agent: ForeignAgent): boolean =>
  firstVersion === agent.firstVersion && (version === 'all' || version === agent.version);

/** Formats the request that would grant an agent its missing permissions and keep the present ones. */
export function grantRequest(
  workspaceId: string,
  agent: ForeignAgent,
  { grant, secrets = [], scopes = [] }: { grant?: Grant; secrets?: readonly string[]; scopes?: readonly Scope[] },
): string {
  const current = grant && isFor(grant, agent) ? grant : undefined;
  const body = {
    version: current?.version === 'all' ? 'all' : `v${agent.version}`,
    secrets: union(current?.secrets, secrets),
    scopes: union(current?.scopes, scopes),
  };
  return `PUT /workspaces/${workspaceId}/grants/${agent.org}/${agent.name} with ${JSON.stringify(body)}`;
}

/** Returns the sorted union without duplicates. */
export const union = <T extends string>(one: readonly T[] = [], other: readonly T[] = []): T[] =>
  [...new Set([...one, ...other])].sort();
