import { membershipOf } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { type AgentAddress, fullNameOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { devUserOf } from './dev/slots.ts';
import { AgentStore, findNewest, resolveAgent } from './store.ts';
import { isPaid } from './views.ts';

type AccessDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Whether a version is public, or belongs to a workspace that the caller is a member of. */
export const maySee = async (deps: AccessDeps, caller: Caller, version: AgentVersion): Promise<boolean> =>
  version.definition.is_public || (await isMember(deps, caller, version.workspaceId));

/** Whether agents of a workspace may call a version, regardless of who pays. */
export const isOpenTo = (version: AgentVersion, workspaceId: string): boolean =>
  version.definition.is_public || version.workspaceId === workspaceId;

/** Whether the caller acts for the workspace or is a member of it. */
export const isMember = async (deps: Pick<Deps, 'main'>, caller: Caller, workspaceId: string): Promise<boolean> =>
  workspaceId === caller.workspace.id || (await membershipOf(deps, caller, workspaceId)) !== undefined;

/**
 * Returns a published version of the caller's workspace. Throws NOT_FOUND, even if the version exists in another
 * workspace.
 */
export const findOwn = (deps: AccessDeps, caller: Caller, id: string): Promise<AgentVersion> =>
  findIn(deps, caller, id, undefined);

/** Like {@link findOwn}, but also finds a build of the caller's own `dev`. */
export const findOwnOrDev = (deps: AccessDeps, caller: Caller, id: string): Promise<AgentVersion> =>
  findIn(deps, caller, id, devUserOf(caller));

async function findIn(deps: AccessDeps, caller: Caller, id: string, devOf: string | undefined): Promise<AgentVersion> {
  const version = await new AgentStore(deps, caller.workspace.id).find(id, devOf);
  if (version === undefined) {
    throw new PlatformError(
      'NOT_FOUND',
      `The workspace "${caller.workspace.slug}" has no agent version with the id "${id.slice(0, 64)}".`,
    );
  }
  return version;
}

/**
 * Returns a version that the caller may see; `latest` falls back to the newest version if none can run. Throws
 * NOT_FOUND.
 */
export async function findVisible(
  deps: AccessDeps,
  caller: Caller,
  { org, agent, version }: AgentAddress,
): Promise<AgentVersion> {
  const current = await resolveAgent(deps, org, agent, version);
  const found = current ?? (version === 'latest' ? await findNewest(deps, org, agent) : undefined);
  if (found === undefined || !(await maySee(deps, caller, found))) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${agent} with a version ${version}.`.slice(0, 300));
  }
  return found;
}

/** Returns a public version. Throws NOT_FOUND. */
export async function findPublic(deps: AccessDeps, { org, agent, version }: AgentAddress): Promise<AgentVersion> {
  const found = await resolveAgent(deps, org, agent, version);
  // A private agent reads as absent: clients then look among their own
  // (docs/interface/authentication.md#access-to-agents).
  if (!found?.definition.is_public) {
    throw new PlatformError('NOT_FOUND', `There is no public agent ${org}/${agent} with a version ${version}.`);
  }
  return found;
}

/**
 * Returns a public version whose source may be downloaded. Throws NOT_FOUND, PAID_AGENT_SERVER_ONLY, DOWNLOAD_DISABLED.
 */
export async function findDownloadable(deps: AccessDeps, address: AgentAddress): Promise<AgentVersion> {
  const found = await findPublic(deps, address);
  const name = fullNameOf(found);
  if (isPaid(found)) {
    throw new PlatformError('PAID_AGENT_SERVER_ONLY', `${name} is a paid agent and runs on the server only.`);
  }
  if (!found.definition.allow_local_download) {
    throw new PlatformError(
      'DOWNLOAD_DISABLED',
      `${name} runs on the server only: its author does not offer the source.`,
    );
  }
  return found;
}
