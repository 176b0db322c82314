import { grantedSecrets } from '#core/accounts/grants/rights.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import { checkGranted, declaredNames } from '#core/execution/calls/secrets.ts';
import { foreignAgents } from '#core/execution/sub-calls/lineage.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Schedule } from '../schedule.ts';
import { ScheduleStore } from '../store.ts';

const MAX_MESSAGE_LENGTH = 1000;

/** Returns the source of the secrets that a run of the agent gets at the top of a chain. */
const sourceOf = (workspaceId: string, agent: AgentVersion) => ({
  workspaceId,
  foreign: foreignAgents(agent, { id: workspaceId }, { foreign: [] }),
});

/**
 * Throws MISSING_SECRETS if a schedule of `workspaceId` would run an agent of another workspace that requires a secret
 * it was not granted (`docs/interface/grants.md#schedules`).
 */
export const checkScheduleGrants = (
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  agent: AgentVersion,
): Promise<void> => checkGranted(deps, agent, sourceOf(workspaceId, agent));

/**
 * Checks the grants for a change of a schedule, like {@link checkScheduleGrants}. `version` is the new version;
 * `undefined` if the schedule keeps its version, which may have been deleted.
 */
export async function checkChangedGrants(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { workspaceId, agentWorkspaceId, agentId }: Schedule,
  version: AgentVersion | undefined,
): Promise<void> {
  if (agentWorkspaceId === workspaceId) return;
  const agent = version ?? (await findAnyVersion(deps, agentId));
  if (agent) await checkScheduleGrants(deps, workspaceId, agent);
}

/**
 * Records the required secrets that were not granted in the timeline, each time the list of missing secrets changes.
 */
export async function noteLackingGrants(
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>,
  schedule: Schedule,
  agent: AgentVersion,
): Promise<void> {
  const { id, workspaceId } = schedule;
  if (agent.workspaceId === workspaceId) return;
  const { foreign } = sourceOf(workspaceId, agent);
  const { lacking, requestsFor } = await grantedSecrets(deps, workspaceId, foreign, declaredNames(agent));
  const names = lacking.length === 0 ? null : lacking.join(', ');
  const isNoted = ({ lackedGrants = null }: Partial<Schedule>) => lackedGrants === names;
  if (isNoted(schedule)) return;
  const [request] = requestsFor(lacking);
  const message = `${refOf(agent)} runs without ${names}, which this workspace does not grant it: ${request}`;
  const events =
    names === null ? [] : [{ type: 'grant_missing' as const, message: message.slice(0, MAX_MESSAGE_LENGTH) }];
  await new ScheduleStore(deps, workspaceId).change(id, (current) =>
    isNoted(current) ? undefined : { set: { lackedGrants: names }, events },
  );
}
