import { getRouteApi } from '@tanstack/react-router';
import { useWorkspace } from '../../api/session.ts';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Budgets } from './budgets.tsx';
import { CreditsPart } from './credits-part.tsx';
import { Earnings } from './earnings.tsx';

const route = getRouteApi('/signed-in/$workspace/billing');

/** Credits, budgets and, for owners, earnings of a workspace. */
export function BillingPage() {
  const { role } = useWorkspace();
  const { tab = 'credits', page } = route.useSearch();
  const parts = [
    ['credits', 'Credits'],
    ['budgets', 'Budgets'],
    ...(role === 'owner' ? [['earnings', 'Earnings'] as const] : []),
  ] as const;
  return (
    <Page
      title="Billing"
      description="Credits pay for paid agents of other workspaces. Model providers bill you directly. Budgets cover both."
      tabs={
        <Tabs
          label="Billing"
          tabs={parts.map(([id, label]) => ({ label, search: { tab: id }, isCurrent: id === tab }))}
        />
      }
    >
      {tab === 'budgets' ? <Budgets /> : tab === 'earnings' ? <Earnings /> : <CreditsPart page={page} />}
    </Page>
  );
}
