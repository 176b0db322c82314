import { hashKey } from '#core/accounts/keys/key-format.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type TransactOperation } from '#core/ports/table.ts';
import { hexOf, runExpiry } from '../items.ts';
import type { Run } from '../run.ts';

/*
 * Read-only links to runs. Runs table:
 * - `WS#<workspace id>#SHARES / <run id without dashes>`: the links of a run. It expires with the run;
 * - `SHARE#<hash of a token> / META`: the run that a link shows. It expires with the link.
 *
 * The token is in the link alone and is not stored. A revoked link expires at once, so a token that is unknown, revoked
 * or expired costs the same single read, and no function needs the right to delete items of this table.
 */

/** Maximum number of valid links of a run. */
export const MAX_SHARES = 20;
const DAY_SECONDS = 24 * 3600;

export interface Share {
  readonly id: string;
  readonly runId: string;
  /** Id of the user who created it. */
  readonly createdBy: string;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly expiresAt: string;
}

/** A link as stored; `expires` in epoch seconds. */
interface StoredShare {
  readonly id: string;
  readonly hash: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly expires: number;
}

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'ids' | 'config'>;

const listKey = ({ workspaceId, id }: Run) => ({ pk: `WS#${workspaceId}#SHARES`, sk: hexOf(id) });
const tokenKey = (hash: string) => ({ pk: `SHARE#${hash}`, sk: 'META' });

/** Lists the valid links of a run, oldest first. */
export const listShares = async (deps: Pick<Deps, 'runs' | 'clock'>, run: Run): Promise<Share[]> =>
  (await readLinks(deps, run)).links.map((link) => shareFrom(run, link));

/**
 * Creates a link to a run and returns it with its token. It is valid for `days`, but no longer than the run is kept.
 * Throws CONFLICT if the run has {@link MAX_SHARES} valid links.
 */
export async function createShare(
  deps: StoreDeps,
  run: Run,
  { days, createdBy }: { readonly days: number; readonly createdBy: string },
): Promise<{ share: Share; token: string }> {
  const { clock, ids, config } = deps;
  const token = newToken(ids);
  const now = clock.now();
  const runExpires = runExpiry(config, Date.parse(run.startedAt));
  const link: StoredShare = {
    id: ids.uuid(),
    hash: hashKey(token),
    created_by: createdBy,
    created_at: isoTime(now),
    expires: Math.min(epochSeconds(now) + days * DAY_SECONDS, runExpires),
  };
  await changeLinks(deps, run, (links) => {
    if (links.length >= MAX_SHARES) {
      throw new PlatformError('CONFLICT', `${MAX_SHARES} links to this run are valid: revoke one first.`);
    }
    const set = { workspace_id: run.workspaceId, run_id: run.id, ttl: link.expires };
    return { links: [...links, link], operation: { op: 'update', key: tokenKey(link.hash), changes: { set } } };
  });
  return { share: shareFrom(run, link), token };
}

/** Revokes a link. Returns false if the run has no valid link with this id. */
export const revokeShare = (deps: StoreDeps, run: Run, shareId: string): Promise<boolean> =>
  changeLinks(deps, run, (links) => {
    const link = links.find(({ id }) => id === shareId);
    if (link === undefined) return undefined;
    const set = { ttl: epochSeconds(deps.clock.now()) };
    const changes = { set, remove: ['workspace_id', 'run_id'] };
    return {
      links: links.filter((each) => each !== link),
      operation: { op: 'update', key: tokenKey(link.hash), changes },
    };
  });

/** Finds the run that a link shows; `undefined` if the link never existed, was revoked, or has expired. */
export async function findShared(
  { runs }: Pick<Deps, 'runs'>,
  token: string,
): Promise<{ readonly workspaceId: string; readonly runId: string; readonly expiresAt: string } | undefined> {
  const item = await runs.get(tokenKey(hashKey(token)));
  if (item === undefined) return undefined;
  return {
    workspaceId: item.workspace_id as string,
    runId: item.run_id as string,
    expiresAt: isoTime(item.ttl! * 1000),
  };
}

async function readLinks({ runs, clock }: Pick<Deps, 'runs' | 'clock'>, run: Run) {
  const item = await runs.get(listKey(run));
  const links = (item?.links ?? []) as unknown as StoredShare[];
  const now = epochSeconds(clock.now());
  return { links: links.filter(({ expires }) => expires > now), revision: item?.revision as number | undefined };
}

/** Replaces the links of a run together with another write. Returns false if `change` returns nothing. */
function changeLinks(
  deps: StoreDeps,
  run: Run,
  change: (
    links: readonly StoredShare[],
  ) => { readonly links: readonly StoredShare[]; readonly operation: TransactOperation } | undefined,
): Promise<boolean> {
  return retryOnConflict(deps.clock, `the links of run ${run.id}`, async () => {
    const { links, revision } = await readLinks(deps, run);
    const changed = change(links);
    if (changed === undefined) return false;
    const set = {
      links: changed.links as unknown as Json,
      revision: (revision ?? 0) + 1,
      ttl: runExpiry(deps.config, Date.parse(run.startedAt)),
    };
    const condition = revision === undefined ? absent('revision') : equals('revision', revision);
    const written = await deps.runs.transact([
      { op: 'update', key: listKey(run), changes: { set }, condition },
      changed.operation,
    ]);
    return written.ok ? true : undefined;
  });
}

const shareFrom = (run: Run, { id, created_by, created_at, expires }: StoredShare): Share => ({
  id,
  runId: run.id,
  createdBy: created_by,
  createdAt: created_at,
  expiresAt: isoTime(expires * 1000),
});
