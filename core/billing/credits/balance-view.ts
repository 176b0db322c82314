import type { Balance } from './ledger.ts';

export const balanceView = ({ cents, debtCents }: Balance) =>
  ({ balance_cents: cents, debt_cents: debtCents, currency: 'usd' }) as const;
