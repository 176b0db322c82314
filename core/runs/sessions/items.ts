import type { ErrorCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import type { Busy } from '#core/manifest/session-rules.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Item, Key } from '#core/ports/table.ts';
import { DIGITS } from '../items.ts';
import type { Session, Turn, TurnContent } from './session.ts';

/**
 * Sessions as items of the runs table:
 *
 * - `WS#<workspace id>#SESSION#<id> / TURN#<number, 8 digits>`: a turn. It is put in the transaction that begins its run, and
 *   updated in the one that ends it;
 * - `WS#<workspace id>#SESSION#<id> / ~`: the session itself, after its turns: one query reads it with its newest turns. gsi1
 *   lists sessions of all workspaces by the time at which they expire, gsi2 those of a workspace by the time at which they
 *   were opened. Both have a partition for each first digit;
 * - `WS#<workspace id>#SESSION_NAME#<hash of agent, tenant and external id> / ~`: the id of the session with this name;
 * - `WS#<workspace id>#SESSION_BYTES / <digit>`: a part of the bytes that sessions hold (`space.ts`).
 *
 * What was said in a large turn is in the blob `sessions/<workspace id>/<session id>/<number>.json`.
 *
 * A message does not change the item of its session: the newest turn says how many there are, and when the last one came.
 */
export const sessionPartition = (workspaceId: string, id: string): string => `WS#${workspaceId}#SESSION#${id}`;
export const sessionKey = (workspaceId: string, id: string): Key => ({
  pk: sessionPartition(workspaceId, id),
  sk: SESSION,
});
export const turnKey = (workspaceId: string, id: string, number: number): Key => ({
  pk: sessionPartition(workspaceId, id),
  sk: turnSk(number),
});
export const turnSk = (number: number): string => `TURN#${String(number).padStart(8, '0')}`;
export const nameKey = (workspaceId: string, hash: string): Key => ({
  pk: `WS#${workspaceId}#SESSION_NAME#${hash}`,
  sk: SESSION,
});
export const bytesKey = (workspaceId: string, digit: string): Key => ({
  pk: `WS#${workspaceId}#SESSION_BYTES`,
  sk: digit,
});
/** Begins the blobs of a session. */
export const sessionBlobs = (workspaceId: string, id: string): string => `sessions/${workspaceId}/${id}/`;
export const turnBlobKey = (workspaceId: string, id: string, number: number): string =>
  `${sessionBlobs(workspaceId, id)}${number}.json`;

const SESSION = '~';
export const MAX_TURNS = 99_999_999;
export const isSession = ({ sk }: Key): boolean => sk === SESSION;

/** Queries for the sessions of a workspace, by the time at which they were opened. */
export const sessionsByTime = (workspaceId: string) =>
  DIGITS.map((digit) => ({ index: 'gsi2', pk: timePartition(workspaceId, digit) }) as const);
/** Queries for the sessions of all workspaces, by the time at which they may have expired. */
export const sessionsByExpiry = () => DIGITS.map((digit) => ({ index: 'gsi1', pk: expiryPartition(digit) }) as const);

const timePartition = (workspaceId: string, digit: string): string => `WS#${workspaceId}#SESSIONS#${digit}`;
const expiryPartition = (digit: string): string => `SESSION_EXPIRY#${digit}`;
const PREFIX = 'ses_';
export const SESSION_ID = /^ses_[0-9a-f]{32}$/;
export const sessionIdOf = (uuid: string): string => PREFIX + uuid.replaceAll('-', '');
/** The first digit of an id, by which items are spread. */
export const digitOf = (id: string): string => id[PREFIX.length]!;
export const sessionIdIn = ({ pk }: Key): string => pk.slice(pk.lastIndexOf('#') + 1);

const DAY_MS = 24 * 3600_000;
export const daysMs = (days: number): number => days * DAY_MS;

/** Attributes that a message changes, once a day at most. `touchedAt` in epoch milliseconds. */
export const touched = (id: string, { ttlDays }: Pick<Session, 'ttlDays'>, touchedAt: number) => ({
  touched_at: touchedAt,
  gsi1pk: expiryPartition(digitOf(id)),
  // Messages of the day that follows change nothing.
  gsi1sk: isoTime(touchedAt + daysMs(ttlDays + 1)),
});

export function itemOf(session: Session): Item {
  const { id, workspaceId, createdAt, forkedFrom } = session;
  return {
    ...sessionKey(workspaceId, id),
    agent_workspace_id: session.agentWorkspaceId === workspaceId ? undefined : session.agentWorkspaceId,
    agent_org: session.agentOrg,
    agent_name: session.agentName,
    external_id: session.externalId,
    title: session.title,
    tenant_id: session.tenantId,
    metadata: { ...session.metadata },
    pin_version: session.pinVersion,
    busy: session.busy,
    ttl_days: session.ttlDays,
    forked_from: forkedFrom && { session_id: forkedFrom.sessionId, after: forkedFrom.after },
    created_at: createdAt,
    ...touched(id, session, createdAt),
    gsi2pk: timePartition(workspaceId, digitOf(id)),
    gsi2sk: isoTime(createdAt),
  };
}

export function sessionFrom(workspaceId: string, item: Item): Session {
  const forked = item.forked_from as { readonly session_id: string; readonly after: number } | undefined;
  return {
    id: sessionIdIn(item),
    workspaceId,
    agentWorkspaceId: (item.agent_workspace_id as string | undefined) ?? workspaceId,
    agentOrg: item.agent_org as string,
    agentName: item.agent_name as string,
    externalId: item.external_id as string | undefined,
    title: item.title as string | undefined,
    tenantId: item.tenant_id as string | undefined,
    metadata: item.metadata as Session['metadata'],
    pinVersion: item.pin_version as string | undefined,
    busy: item.busy as Busy,
    ttlDays: item.ttl_days as number,
    ...(forked && { forkedFrom: { sessionId: forked.session_id, after: forked.after } }),
    createdAt: item.created_at as number,
  };
}

export function turnFrom(item: Item): Turn {
  return {
    number: Number(item.sk.slice(item.sk.indexOf('#') + 1)),
    runId: item.run_id as string,
    agentVersion: item.agent_version as string,
    createdAt: item.created_at as number,
    ...(item.status !== undefined && {
      end: {
        status: item.status as EndStatus,
        errorCode: (item.error_code as ErrorCode | undefined) ?? null,
        errorMessage: (item.error_message as string | undefined) ?? null,
        at: item.ended_at as number,
      },
    }),
    ...(item.copied === true && { isCopied: true }),
    bytes: item.bytes as number,
    said: item.said as number,
    ownSaid: (item.own_said as number | undefined) ?? 0,
    ...(item.content !== undefined && { content: item.content as unknown as TurnContent }),
  };
}

/** What the model of a prompt gets of a turn, and an estimate of it for other agents. */
export const bytesSaid = ({ text, input, output }: TurnContent): number =>
  Buffer.byteLength(text ?? JSON.stringify(input)) + Buffer.byteLength(JSON.stringify(output));

/** Text of what was said, as it is stored. */
export const contentText = ({ input, text, output }: TurnContent): string =>
  JSON.stringify({ input, ...(text !== undefined && { text }), output } satisfies { [name: string]: Json });
