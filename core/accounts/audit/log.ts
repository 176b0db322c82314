import type { Caller } from '#core/base/caller.ts';
import { type ErrorCode, httpStatusOf, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Audit } from '#core/http/route.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, type Item, type Key, type Query, type TransactOperation } from '#core/ports/table.ts';
import { planQuery } from '#core/ports/table-rules.ts';
import { membershipOf } from '../workspaces/store.ts';
import { type Asked, answeredTarget, type Target, targetOf } from './target.ts';

/**
 * Who changed what in a workspace. Main table, with expiry: `WS#<workspace id>#AUDIT / <time>#<request's UUID>`.
 *
 * An entry is written before the change, with the outcome `unknown`, and completed after it: a process that dies in between
 * leaves the entry. So there is no change without one, and without an entry no change.
 */
export interface AuditEntry {
  /** The request's UUID. */
  readonly id: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Null: the operator. */
  readonly userId: string | null;
  readonly keyId: string | null;
  readonly operation: string;
  readonly target: Target;
  /** The client's, if the host knew it. */
  readonly address: string | null;
  /** `unknown`: the process died, or failed in the middle; a part of the change may have been made. */
  readonly outcome: 'done' | 'refused' | 'unknown';
  /** Why it was refused, or what failed. */
  readonly errorCode: ErrorCode | null;
}

type AuditDeps = Pick<Deps, 'main' | 'clock' | 'config' | 'log'>;

/** Which request it was, and where from. */
export interface RequestOrigin {
  readonly requestUuid: string;
  readonly address?: string | undefined;
}

/** A request that changes something. */
type Change = Asked & RequestOrigin;

/** What an entry is about. Without `by`, the operator. */
interface Subject {
  readonly workspaceId: string;
  readonly operation: string;
  /** The row's. @default - only the path's parameters are kept */
  readonly audit?: Audit;
  readonly by?: Pick<Caller, 'userId'> & Partial<Pick<Caller, 'keyId'>>;
}

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#AUDIT`;

function newItem(
  { clock, config }: Pick<Deps, 'clock' | 'config'>,
  { workspaceId, operation, audit = {}, by }: Subject,
  change: Change,
): Item {
  const now = clock.now();
  return {
    pk: partitionOf(workspaceId),
    sk: `${isoTime(now)}#${change.requestUuid}`,
    user_id: by?.userId,
    key_id: by?.keyId,
    operation,
    target: targetOf(audit, change),
    address: change.address,
    outcome: 'unknown',
    ttl: epochSeconds(now) + config.auditRetentionDays * 24 * 3600,
  };
}

/** The entry of a change that is written in one transaction with it. */
export const entryOperation = (
  deps: Pick<Deps, 'clock' | 'config'>,
  subject: Subject,
  change: Change,
): TransactOperation => ({ op: 'put', item: { ...newItem(deps, subject, change), outcome: 'done' } });

/** Makes a change, with its entry. Throws what `make` throws, and what the table throws before anything is changed. */
export async function audited<Answer extends { readonly body?: unknown }>(
  deps: AuditDeps,
  subject: Subject,
  change: Change,
  make: () => Promise<Answer>,
): Promise<Answer> {
  const item = newItem(deps, subject, change);
  await deps.main.put(item);
  let answer: Answer;
  try {
    answer = await make();
  } catch (error) {
    const { code = 'INTERNAL_ERROR' } = isPlatformError(error) ? error : {};
    await complete(deps, item, { error_code: code, ...(httpStatusOf(code) < 500 && { outcome: 'refused' }) });
    throw error;
  }
  const target = { ...(item.target as Target), ...answeredTarget(subject.audit ?? {}, answer.body) };
  await complete(deps, item, { outcome: 'done', target });
  return answer;
}

/** Never throws: the change was made, or refused, and its entry says `unknown`. */
async function complete({ main, log }: AuditDeps, { pk, sk }: Key, set: Partial<Item>): Promise<void> {
  try {
    await main.update({ pk, sk }, { set }, exists());
  } catch (error) {
    log.error('an entry of the audit log is not complete', { entry: sk, error: String(error) });
  }
}

/** The workspace that a request of a user changes: the one that the body names, if the caller may act in it. */
export async function changedWorkspace(deps: Pick<Deps, 'main'>, caller: Caller, body: unknown): Promise<string> {
  const { workspace_id: named } = (body ?? {}) as { readonly workspace_id?: unknown };
  if (typeof named !== 'string' || named === caller.workspace.id) return caller.workspace.id;
  return (await membershipOf(deps, caller, named))?.workspace.id ?? caller.workspace.id;
}

export interface AuditFilter {
  readonly operation?: string | undefined;
  readonly userId?: string | undefined;
  /** ISO 8601: at or after `from`, before `to`. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** On AWS each read is paid for. */
const MAX_EXAMINED = 1000;
const READ_AT_ONCE = 200;

/**
 * A page, newest first; with a filter it may be short, or empty, although more follows. Throws INVALID_INPUT for a cursor of
 * another listing, and if `to` is not after `from`.
 */
export async function listEntries(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  filter: AuditFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ entries: AuditEntry[]; nextCursor: string | null }> {
  const { operation, userId, from = '0', to = '~' } = filter;
  if (to <= from) throw new PlatformError('INVALID_INPUT', 'query.to: must be after from.');
  const pk = partitionOf(workspaceId);
  const listing = [workspaceId, 'audit', operation ?? null, userId ?? null, from, to];
  const query: Query = { pk, sk: { between: [from, to] }, reverse: true, limit: READ_AT_ONCE };
  let at = cursor === undefined ? undefined : planQuery(query).cursorAfter({ pk, sk: placeIn(cursor, listing) });
  const entries: AuditEntry[] = [];
  let examined = 0;
  do {
    const page = await main.query({ ...query, cursor: at });
    for (const [index, item] of page.items.entries()) {
      examined += 1;
      const entry = entryFrom(item);
      if (matches(entry, filter)) entries.push(entry);
      const isLast = index === page.items.length - 1 && page.cursor === undefined;
      if ((entries.length === limit || examined === MAX_EXAMINED) && !isLast) {
        return { entries, nextCursor: writeCursor(listing, [item.sk]) };
      }
    }
    at = page.cursor;
  } while (at !== undefined);
  return { entries, nextCursor: null };
}

const matches = ({ operation, userId }: AuditEntry, filter: AuditFilter): boolean =>
  (filter.operation === undefined || operation === filter.operation) &&
  (filter.userId === undefined || userId === filter.userId);

const PLACE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z#[0-9a-f-]{36}$/;

const placeIn = (cursor: string, listing: Parameters<typeof readCursor>[1]): string =>
  readCursor(cursor, listing, ([sk]) => (typeof sk === 'string' && PLACE.test(sk) ? sk : undefined));

const entryFrom = (item: Item): AuditEntry => {
  const [createdAt, id] = item.sk.split('#') as [string, string];
  return {
    id,
    createdAt,
    userId: (item.user_id as string | undefined) ?? null,
    keyId: (item.key_id as string | undefined) ?? null,
    operation: item.operation as string,
    target: item.target as Target,
    address: (item.address as string | undefined) ?? null,
    outcome: item.outcome as AuditEntry['outcome'],
    errorCode: (item.error_code as ErrorCode | undefined) ?? null,
  };
};
