import type { ForeignAgent } from '#core/base/caller.ts';

/** Parts of a workspace that a run's key can give access to. */
export const SCOPES = ['memory', 'messages', 'storage', 'tasks'] as const;
export type Scope = (typeof SCOPES)[number];

/**
 * Permissions that an owner of a workspace gives to an agent of another one; to an own agent, only {@link Grant.egress}
 * (`docs/interface/grants.md`).
 */
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
  /** Targets `host:port` that it may connect to, sorted. */
  readonly egress: readonly string[];
  /** Id of a user. */
  readonly grantedBy: string;
  /** ISO 8601. */
  readonly grantedAt: string;
  /** A new UUID after each change. */
  readonly revision: string;
}

/** Whether the grant is for this version of the agent, not for an earlier agent of the same name. */
export const isFor = ({ version, firstVersion }: Grant, agent: ForeignAgent): boolean =>
  agent.version === DEV_VERSION
    ? version === 'all'
    : firstVersion === agent.firstVersion && (version === 'all' || version === agent.version);

/** Number of every build of `dev`, which is of any agent of its name in the workspace. */
const DEV_VERSION = 0;

type Rights = Pick<Grant, 'secrets' | 'scopes' | 'egress'>;

/** Formats the request that would grant an agent its missing permissions and keep the present ones. */
export function grantRequest(
  workspaceId: string,
  agent: ForeignAgent,
  { grant, secrets = [], scopes = [], egress = [] }: { grant?: Grant } & Partial<Rights>,
): string {
  const current = grant && isFor(grant, agent) ? grant : undefined;
  const targets = union(current?.egress, egress);
  const body = {
    // Authors of an own agent are members of the workspace.
    version: current?.version === 'all' || agent.workspaceId === workspaceId ? 'all' : `v${agent.version}`,
    secrets: union(current?.secrets, secrets),
    scopes: union(current?.scopes, scopes),
    ...(targets.length > 0 && { egress: targets }),
  };
  return `PUT /workspaces/${workspaceId}/grants/${agent.org}/${agent.name} with ${JSON.stringify(body)}`;
}

/** Returns the sorted union without duplicates. */
export const union = <T extends string>(one: readonly T[] = [], other: readonly T[] = []): T[] =>
  [...new Set([...one, ...other])].sort();
