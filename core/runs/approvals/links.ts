import { LINK } from '#core/accounts/audit/log.ts';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent } from '#core/ports/table.ts';
import { type Approval, approvalIdOf } from './approval.ts';
import { countLink, findApproval } from './store.ts';

/*
 * Links with which people without an account decide, once. Runs table: `APPROVAL_LINK#<hash of a token> / META`: what the
 * link asks. It expires with the link, and at the latest with the question.
 *
 * The token is in the link alone and is not stored. A link is used when its question was decided by a link, so a decision
 * uses it up in the transaction that makes it.
 */

export const LINK_PATH = '/auth/approvals';
const keyOf = (token: string) => ({ pk: `APPROVAL_LINK#${hashKey(token)}`, sk: 'META' });

/**
 * Creates a link about a call that waits. It is valid for `seconds`, but no longer than the call waits. Throws CONFLICT if
 * the call does not wait, or has too many links.
 */
export async function createLink(
  deps: Pick<Deps, 'runs' | 'clock' | 'ids'>,
  approval: Approval,
  seconds: number,
): Promise<{ readonly token: string; readonly expiresAt: string }> {
  const token = newToken(deps.ids);
  const expires = Math.min(epochSeconds(deps.clock.now()) + seconds, epochSeconds(approval.expiresAt));
  const { workspaceId, runId, turn, call } = approval;
  const item = { ...keyOf(token), workspace_id: workspaceId, run_id: runId, turn, call, ttl: expires };
  if (!(await countLink(deps, approval, { op: 'put', item, condition: absent() }))) {
    throw new PlatformError('CONFLICT', `${approvalIdOf(approval)} does not wait any more, or has too many links.`);
  }
  return { token, expiresAt: isoTime(expires * 1000) };
}

/**
 * Returns what a link asks, which may have been decided elsewhere. Throws NOT_FOUND, in the same words for a link that never
 * existed, was used, or has expired.
 */
export async function findLinked(deps: Pick<Deps, 'runs'>, token: string): Promise<Approval> {
  const item = await deps.runs.get(keyOf(token));
  const approval =
    item &&
    (await findApproval(deps, {
      workspaceId: item.workspace_id as string,
      runId: item.run_id as string,
      turn: item.turn as number,
      call: item.call as number,
    }));
  if (approval === undefined || approval.decidedBy === LINK || approval.status === 'expired') {
    throw new PlatformError('NOT_FOUND', 'This link does not exist, was used, or has expired.');
  }
  return approval;
}
