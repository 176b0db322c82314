import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fullNameOf, refOf } from '#core/manifest/references.ts';
import { DEFAULT_BUSY, DEFAULT_TTL_DAYS } from '#core/manifest/session-rules.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { SESSION_ID, sessionIdOf } from '#core/runs/sessions/items.ts';
import type { Session, Turn } from '#core/runs/sessions/session.ts';
import { countBytes } from '#core/runs/sessions/space.ts';
import { type FoundSession, noSession, SessionStore } from '#core/runs/sessions/store.ts';

/** The session that a call continues: plain data, so that a stored call can hold it. */
export interface SessionOfCall extends Pick<Session, 'id' | 'busy' | 'ttlDays' | 'pinVersion'> {
  /** The newest turns that are known, the newest first. Another process may have added some since. */
  readonly newest: readonly Turn[];
}

/** The session by its id or the name that its caller gave it; a name that is not known yet opens one. */
export interface Joining {
  readonly workspace: Workspace;
  readonly agent: AgentVersion;
  readonly tenantId: string | undefined;
  /** Id of a session, or an external id. */
  readonly name: string;
}

/** What a request says of a new session. */
export type NewSession = Partial<
  Pick<Session, 'externalId' | 'title' | 'metadata' | 'pinVersion' | 'busy' | 'ttlDays'>
>;

/** Turns that are read with a session: those of a page for prompts, which get them, else those that may be under way. */
const READ_TURNS = { prompt: 200, other: 24 } as const;

/** External ids are shown in lists, and are part of no address. */
export const EXTERNAL_ID = /^[\w.:@+/=-]{1,256}$/;

type JoinDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'ids' | 'config'>;

/**
 * Finds or opens the session that a call names. Throws NOT_FOUND for a session that does not exist, has expired, or belongs
 * to another tenant; INVALID_INPUT for one of another agent; UNPROCESSABLE for an agent that takes no sessions;
 * STORAGE_QUOTA_EXCEEDED if the sessions of the workspace hold what its plan allows.
 */
export async function joinSession(deps: JoinDeps, joining: Joining): Promise<SessionOfCall> {
  const { workspace, agent, tenantId, name } = joining;
  checkTakesSessions(agent);
  const found = await findSession(deps, joining);
  const { session } = found;
  if (session.tenantId !== tenantId) throw noSession(name);
  if (session.agentName !== agent.name || session.agentWorkspaceId !== agent.workspaceId) {
    throw new PlatformError(
      'INVALID_INPUT',
      `headers.x-platform-session: the session ${session.id} is one of ${session.agentOrg}/${session.agentName}, not of ${fullNameOf(agent)}.`,
      { hint: 'A session belongs to one agent: call that one, or open another session.' },
    );
  }
  const store = new SessionStore(deps, workspace.id);
  await Promise.all([store.touch(found), countBytes(deps, workspace, found)]);
  const { id, busy, ttlDays, pinVersion } = session;
  return { id, busy, ttlDays, ...(pinVersion !== undefined && { pinVersion }), newest: found.newest };
}

async function findSession(deps: JoinDeps, { workspace, agent, tenantId, name }: Joining): Promise<FoundSession> {
  const store = new SessionStore(deps, workspace.id);
  const turns = READ_TURNS[engineTraits(agent).hasPlaceholders ? 'prompt' : 'other'];
  if (SESSION_ID.test(name)) {
    const found = await store.find(name, turns);
    if (found === undefined) throw noSession(name);
    return found;
  }
  if (!EXTERNAL_ID.test(name)) {
    throw new PlatformError(
      'INVALID_INPUT',
      'headers.x-platform-session: must be the id of a session, or your own name for one: 1-256 letters, digits or . : @ + / = _ -',
    );
  }
  const owner = { agentWorkspaceId: agent.workspaceId, agentName: agent.name, tenantId };
  const known = await store.findNamed(owner, name);
  const id = known ?? (await openSession(deps, { workspace, agent, tenantId }, { externalId: name })).id;
  const found = await store.find(id, turns);
  if (found === undefined) throw noSession(name);
  return found;
}

/**
 * Opens a session of an agent, or finds the one with the same external id. Throws UNPROCESSABLE for an agent that takes no
 * sessions.
 */
export async function openSession(
  deps: JoinDeps,
  { workspace, agent, tenantId }: Omit<Joining, 'name'>,
  wanted: NewSession = {},
): Promise<{ readonly id: string; readonly isNew: boolean }> {
  checkTakesSessions(agent);
  const { sessions } = agent.definition;
  const rules = sessions === false ? undefined : sessions;
  const session: Session = {
    id: sessionIdOf(deps.ids.uuid()),
    workspaceId: workspace.id,
    agentWorkspaceId: agent.workspaceId,
    agentOrg: agent.orgSlug,
    agentName: agent.name,
    externalId: wanted.externalId,
    title: wanted.title,
    tenantId,
    metadata: wanted.metadata ?? {},
    pinVersion: wanted.pinVersion,
    busy: wanted.busy ?? rules?.busy ?? DEFAULT_BUSY,
    ttlDays: wanted.ttlDays ?? rules?.ttl_days ?? DEFAULT_TTL_DAYS,
    createdAt: deps.clock.now(),
  };
  return new SessionStore(deps, workspace.id).open(session);
}

function checkTakesSessions(agent: AgentVersion): void {
  const { run_mode, sessions } = agent.definition;
  const why = !engineTraits(agent).isRun
    ? 'it is a skill, which does not run'
    : run_mode === 'always_on'
      ? 'it is always on'
      : sessions === false
        ? 'its manifest has "sessions": false'
        : undefined;
  if (why === undefined) return;
  throw new PlatformError('UNPROCESSABLE', `${refOf(agent)} takes no sessions: ${why}.`, {
    hint: 'Call it without a session.',
  });
}
