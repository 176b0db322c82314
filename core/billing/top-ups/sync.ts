import type { AllDeps } from '#core/ports/deps.ts';
import type { PaymentRef, PaymentState } from '#core/ports/payments.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { book, type Movement } from '../credits/ledger.ts';
import { findTopUp, openTopUps, type TopUp, type TopUpIds, topUpChange } from './store.ts';

export type SyncDeps = Pick<AllDeps, 'main' | 'clock' | 'ids' | 'log' | 'payments'>;

/**
 * Result of syncing a payment. `foreign`: not a top-up of this platform. `unknown`: the provider has a payment for a
 * top-up
 * that the tables do not have.
 */
export type SyncResult = {
  readonly outcome: 'same' | 'changed' | 'foreign' | 'unknown';
  readonly topUp?: TopUp;
};

/**
 * Brings the ledger in line with the provider's state of a payment. Purchased credits enter and leave the ledger only
 * here:
 * for events, for the page after the payment, and for the reconciliation.
 *
 * The record's revision is read before the provider is asked, and the ledger's transaction requires the same revision.
 * The
 * written state is therefore newer than the last write, and events may come in any order, twice, late or never.
 */
export async function syncTopUp(deps: SyncDeps, ref: PaymentRef, known?: TopUpIds): Promise<SyncResult> {
  let ids = known;
  return retryOnConflict(deps.clock, 'a top-up', async () => {
    const before = ids && (await findTopUp(deps, ids));
    const state = await deps.payments.retrieve(ref);
    if (state === undefined) return before ? closeLost(deps, before) : { outcome: 'foreign' };
    if (ids === undefined) {
      ids = state;
      return undefined;
    }
    if (before === undefined) {
      const { workspaceId, topUpId, sessionId } = state;
      deps.log.error('payment without a top-up', {
        workspace_id: workspaceId,
        top_up_id: topUpId,
        session_id: sessionId,
      });
      return { outcome: 'unknown' };
    }
    return apply(deps, before, state);
  });
}

/** Returns `undefined` if another process changed the top-up concurrently. */
async function apply(deps: SyncDeps, before: TopUp, state: PaymentState): Promise<SyncResult | undefined> {
  // A paid amount never decreases: money goes back only by a refund or a dispute.
  const paidCents = Math.max(before.paidCents, state.paidCents);
  const refundedCents = Math.min(state.refundedCents, paidCents);
  const disputedCents = Math.min(state.disputedCents, paidCents - refundedCents);
  const status = paidCents > 0 ? 'paid' : state.status;
  const after = { sessionId: state.sessionId, status, paidCents, refundedCents, disputedCents } as const;
  const isOpen = status === 'open' || status === 'processing' || state.hasOpenDispute;
  if (state.status === 'paid' && state.paidCents !== before.cents) {
    const amounts = { ordered_cents: before.cents, paid_cents: state.paidCents };
    deps.log.error('payment of another amount', { workspace_id: before.workspaceId, top_up_id: before.id, ...amounts });
  }
  if (isSame(before, after)) return { outcome: 'same', topUp: before };
  const change = topUpChange(before, after, isOpen);
  const movements = movementsOf(before, { ...after, receiptUrl: state.receiptUrl });
  const isWritten =
    movements.length === 0
      ? (await deps.main.update(change.key, change.changes, change.condition)).ok
      : (await book(deps, before.workspaceId, movements, { alongside: { op: 'update', ...change }, mayOwe: true }))
          .isWritten;
  return isWritten ? { outcome: 'changed', topUp: { ...before, ...after, revision: before.revision + 1 } } : undefined;
}

const isSame = (
  before: TopUp,
  after: Omit<TopUp, 'id' | 'workspaceId' | 'cents' | 'revision' | 'createdAt'>,
): boolean => Object.entries(after).every(([name, value]) => before[name as keyof TopUp] === value);

/** Returns the movements that bring the booked state of a top-up to its actual state. */
function movementsOf(
  before: TopUp,
  after: Pick<TopUp, 'paidCents' | 'refundedCents' | 'disputedCents'> & { receiptUrl: string | null },
): Movement[] {
  const movements: Movement[] = [];
  const move = (kind: Movement['kind'], amountCents: number, description: string) => {
    if (amountCents === 0) return;
    movements.push({ kind, amountCents, description, referenceId: before.id, receiptUrl: after.receiptUrl });
  };
  const refunded = after.refundedCents - before.refundedCents;
  const disputed = after.disputedCents - before.disputedCents;
  move('top_up', after.paidCents - before.paidCents, 'Bought');
  move('top_up_refund', -refunded, refunded > 0 ? 'Refunded to the payer' : 'A refund to the payer that failed');
  if (disputed > 0) move('dispute', -disputed, 'Disputed by the payer');
  else move('dispute_release', -disputed, 'A dispute that the payer lost');
  return movements;
}

/** Closes a top-up whose session the provider no longer has, so that it can no longer be paid. */
async function closeLost({ main }: SyncDeps, before: TopUp): Promise<SyncResult | undefined> {
  if (before.status === 'paid' || before.status === 'closed') return { outcome: 'same', topUp: before };
  const { key, changes, condition } = topUpChange(before, { ...before, status: 'closed' }, false);
  if (!(await main.update(key, changes, condition)).ok) return undefined;
  return { outcome: 'changed', topUp: { ...before, status: 'closed', revision: before.revision + 1 } };
}

/** Payments with an event in this period are checked again, which covers three failed daily runs. */
const LOOK_BACK_MS = 4 * 24 * 3600 * 1000;
/** Newer top-ups are probably being paid right now. */
const MIN_AGE_MS = 3600 * 1000;
/** A page lives for two hours: a top-up without a session after this time was never shown. */
const MAX_AGE_WITHOUT_SESSION_MS = 24 * 3600 * 1000;

/**
 * Finds payments that events missed: checks all payments with a recent event, delivered or not, and all open top-ups,
 * and
 * repairs the ledger. Throws at the end, which raises an alarm, if an event was missed or the tables lack a payment.
 */
export async function reconcilePayments(deps: SyncDeps): Promise<void> {
  const now = deps.clock.now();
  const seen = new Set<string>();
  const differences: string[] = [];
  const look = async (ref: PaymentRef, known?: TopUpIds) => {
    const { outcome, topUp } = await syncTopUp(deps, ref, known);
    if (outcome === 'changed' && topUp!.status !== 'closed') differences.push(`repaired top-up ${topUp!.id}`);
    if (outcome === 'unknown') differences.push(`unknown payment ${nameOf(ref)}`);
  };
  for await (const ref of deps.payments.changedSince(now - LOOK_BACK_MS)) {
    if (seen.has(nameOf(ref))) continue;
    seen.add(nameOf(ref));
    await look(ref);
  }
  for await (const topUp of openTopUps(deps, now - MIN_AGE_MS)) {
    const { id, workspaceId, sessionId, createdAt } = topUp;
    if (sessionId !== null) await look({ sessionId }, { workspaceId, topUpId: id });
    else if (Date.parse(createdAt) < now - MAX_AGE_WITHOUT_SESSION_MS) await closeLost(deps, topUp);
  }
  if (differences.length === 0) return;
  throw new PaymentsDiffered(
    `payments differed, ${differences.length} of them: ${differences.slice(0, 20).join(', ')}`,
  );
}

/** Thrown after a reconciliation that found differences; the message lists them. */
export class PaymentsDiffered extends Error {}

const nameOf = (ref: PaymentRef): string => ('sessionId' in ref ? ref.sessionId : ref.paymentId);
