import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { balanceView } from './balance-view.ts';
import { balanceOf, type LedgerEntry, listEntries } from './ledger.ts';
import type { creditRoutes } from './routes.ts';

const RECENT_TRANSACTIONS = 20;

export function creditHandlers(deps: Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>): Handlers<typeof creditRoutes> {
  const transactions = async ({ caller, query }: Incoming<(typeof creditRoutes)[2]>) => ({
    status: 200 as const,
    body: (await listEntries(deps, caller.workspace.id, query)).map(view),
  });
  return {
    async getBalance({ caller }) {
      return { status: 200, body: balanceView(await balanceOf(deps, caller.workspace.id)) };
    },

    async getCredits({ caller }) {
      const balance = await balanceOf(deps, caller.workspace.id);
      const recent = await listEntries(deps, caller.workspace.id, { limit: RECENT_TRANSACTIONS, offset: 0 });
      return {
        status: 200,
        body: { ...balanceView(balance), recent_transactions: recent.map(view) },
      };
    },

    listTransactions: transactions,
    listBillingHistory: transactions,
  };
}

const view = (entry: LedgerEntry) => ({
  id: entry.id,
  type: entry.type,
  transaction_type: entry.kind,
  amount_cents: entry.amountCents,
  balance_after_cents: entry.balanceAfterCents,
  debt_after_cents: entry.debtAfterCents,
  description: entry.description,
  reference_id: entry.referenceId,
  receipt_url: entry.receiptUrl,
  created_at: entry.createdAt,
});
