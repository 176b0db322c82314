import { useMemo, useRef } from 'react';
import type { AnswerOf } from '../api/client.ts';
import { useOperation } from '../api/query.ts';
import { useWho, useWorkspace } from '../api/session.ts';

export type Approval = AnswerOf<'listApprovals'>['approvals'][number];

/** The kinds that people decide; `time` and `event` are no decisions. */
export const DECIDED_KINDS = 'approve,answer';
export const isForPeople = ({ kind }: Pick<Approval, 'kind'>): boolean => kind === 'approve' || kind === 'answer';

/** The events of a workspace do not say that a call waits. */
export const POLL_MS = 5_000;
const BADGE_MS = 20_000;
const MAX_COUNTED = 100;
const MINUTE = 60_000;

/** Reads the calls and questions of a workspace that wait for people, newest first: as many as are counted. */
export const useWaiting = (workspace_id: string, enabled = true) =>
  useOperation(
    'listApprovals',
    { params: { workspace_id }, query: { status: 'waiting', kinds: DECIDED_KINDS, limit: MAX_COUNTED } },
    { enabled, refetchInterval: BADGE_MS },
  );

/** Returns how many calls and questions of a workspace wait for people, as a text; `undefined` if none does. */
export function useWaitingCount(workspace_id: string, enabled: boolean): string | undefined {
  const { data } = useWaiting(workspace_id, enabled);
  if (data === undefined || data.approvals.length === 0) return undefined;
  return `${data.approvals.length}${data.next_cursor === null ? '' : '+'}`;
}

/** Whether the user may decide; if not, `reason` says why once it is known. */
export function useMayDecide(): { readonly mayDecide: boolean; readonly reason?: string } {
  // A session has the scope of the key that began it.
  const { scope } = useWho();
  const { role } = useWorkspace();
  const hasScope = scope === 'manage' || scope === 'approve';
  const isOwner = role === 'owner';
  const { data, isPending } = useOperation('getOrg', {}, { enabled: hasScope && !isOwner, staleTime: MINUTE });
  if (!hasScope) return { mayDecide: false, reason: 'deciding needs a key with the scope approve or manage.' };
  if (isOwner) return { mayDecide: true };
  if (data?.approvers === 'owners') return { mayDecide: false, reason: 'only owners of the workspace decide.' };
  return { mayDecide: !isPending };
}

/**
 * Returns the calls that wait, and those that did while the page was open: what was decided meanwhile stays in its place,
 * and what is new comes last, so that nobody decides about another call than the one they saw.
 */
export function useKept(waiting: readonly Approval[]) {
  const known = useRef(new Map<string, Approval>());
  return useMemo(() => {
    const listed = new Set(waiting.map(({ id }) => id));
    for (const each of waiting) known.current.set(each.id, each);
    return [...known.current.values()].map((approval) => ({ approval, isListed: listed.has(approval.id) }));
  }, [waiting]);
}
