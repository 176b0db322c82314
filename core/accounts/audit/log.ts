import type { Caller, TrustCaller } from '#core/base/caller.ts';
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
 * Audit entry of a workspace. Main table, with expiry: `WS#<workspace id>#AUDIT / <time>#<request's UUID>`.
 *
 * An entry is written before the change, with the outcome `unknown`, and completed after it. If the process dies in
 * between, the entry remains. So there is no change without an entry: if it cannot be written, the change is not made.
 */
export interface AuditEntry {
  /** UUID of the request. */
  readonly id: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Id of the user. Null: the operator. {@link LINK}: a person with a link. With {@link trustUserId}: a trust. */
  readonly userId: string | null;
  readonly keyId: string | null;
  /** The job that made the change by a trust. */
  readonly trust: TrustCaller | null;
  readonly operation: string;
  readonly target: Target;
  /** Address of the client, if the host knew it. */
  readonly address: string | null;
  /** `unknown`: the process died, or failed during the change, which may be partly made. */
  readonly outcome: 'done' | 'refused' | 'unknown';
  /** Why the change was refused, or what failed. */
  readonly errorCode: ErrorCode | null;
}

/** Stored in place of a user's id when a person with a link made the change. */
export const LINK = 'link';

type AuditDeps = Pick<Deps, 'main' | 'clock' | 'config' | 'log'>;

/** Id, time and address of a request. */
export interface RequestOrigin {
  readonly requestUuid: string;
  readonly address?: string | undefined;
}

/** A request that changes something. */
type Change = Asked & RequestOrigin;

/** Subject and author of an entry. Without `by`, the author is the operator. */
interface Subject {
  readonly workspaceId: string;
  readonly operation: string;
  /** Audit rules of the row. @default - only the path's parameters are recorded */
  readonly audit?: Audit;
  readonly by?: Pick<Caller, 'userId'> & Partial<Pick<Caller, 'keyId' | 'trust'>>;
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
    ...(by?.trust && { trust: { ...by.trust, claims: { ...by.trust.claims } } }),
    operation,
    target: targetOf(audit, change),
    address: change.address,
    outcome: 'unknown',
    ttl: epochSeconds(now) + config.auditRetentionDays * 24 * 3600,
  };
}

/** Returns the write of an entry that belongs to the same transaction as the change. */
export const entryOperation = (
  deps: Pick<Deps, 'clock' | 'config'>,
  subject: Subject,
  change: Change,
): TransactOperation => ({ op: 'put', item: { ...newItem(deps, subject, change), outcome: 'done' } });

/** Returns the write of an entry about an attempt that was refused before it had an author. */
export const refusedEntry = (
  deps: Pick<Deps, 'clock' | 'config'>,
  subject: Subject,
  change: Change,
  errorCode: ErrorCode,
): TransactOperation => ({
  op: 'put',
  item: { ...newItem(deps, subject, change), outcome: 'refused', error_code: errorCode },
});

/** Makes a change and records it. Throws errors of `make`, and errors of the table from before the change. */
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

/** Completes an entry. Never throws: the change is over, and an incomplete entry says `unknown`. */
async function complete({ main, log }: AuditDeps, { pk, sk }: Key, set: Partial<Item>): Promise<void> {
  try {
    await main.update({ pk, sk }, { set }, exists());
  } catch (error) {
    log.error('an audit log entry could not be completed', { entry: sk, error: String(error) });
  }
}

/** Returns the workspace that a user's request changes: the one that the body names, if the caller has access to it. */
export async function changedWorkspace(deps: Pick<Deps, 'main'>, caller: Caller, body: unknown): Promise<string> {
  const { workspace_id: named } = (body ?? {}) as { readonly workspace_id?: unknown };
  if (typeof named !== 'string' || named === caller.workspace.id) return caller.workspace.id;
  return (await membershipOf(deps, caller, named))?.workspace.id ?? caller.workspace.id;
}

export interface AuditFilter {
  readonly operation?: string | undefined;
  readonly userId?: string | undefined;
  /** ISO 8601. The range includes `from` and excludes `to`. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Maximum entries examined for a page: each read costs money on AWS. */
const MAX_EXAMINED = 1000;
const READ_AT_ONCE = 200;

/**
 * Returns a page, newest first. With a filter it may be short or empty although more follows. Throws INVALID_INPUT for
 * a cursor of another listing, and if `to` is not after `from`.
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
    trust: (item.trust as TrustCaller | undefined) ?? null,
    operation: item.operation as string,
    target: item.target as Target,
    address: (item.address as string | undefined) ?? null,
    outcome: item.outcome as AuditEntry['outcome'],
    errorCode: (item.error_code as ErrorCode | undefined) ?? null,
  };
};
