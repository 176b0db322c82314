import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
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
      return { status: 200, body: { balance_cents: await balanceOf(deps, caller.workspace.id), currency: 'usd' } };
    },

    async getCredits({ caller }) {
      const balance = await balanceOf(deps, caller.workspace.id);
      const recent = await listEntries(deps, caller.workspace.id, { limit: RECENT_TRANSACTIONS, offset: 0 });
      return {
        status: 200,
        body: { balance_cents: balance, currency: 'usd', recent_transactions: recent.map(view) },
      };
    },

    listTransactions: transactions,
    listBillingHistory: transactions,
  };
}

const view = ({ id, type, amountCents, balanceAfterCents, description, referenceId, createdAt }: LedgerEntry) => ({
  id,
  type,
  transaction_type: type,
  amount_cents: amountCents,
  balance_after_cents: balanceAfterCents,
  description,
  reference_id: referenceId,
  created_at: createdAt,
});
