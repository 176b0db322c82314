import { Plus, Wallet } from 'lucide-react';
import { useState } from 'react';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Figures } from '../../ui/data/figures.tsx';
import { Credits } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link, OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { TopUp } from './top-up.tsx';

const PAGE = 50;

const KINDS: Readonly<Record<string, string>> = {
  top_up: 'Purchased or granted',
  charge: 'Paid call',
  refund: 'Call refund',
  top_up_refund: 'Refund to payer',
  dispute: 'Dispute',
  dispute_release: 'Dispute won',
};

/** Credit balance and its history. */
export function CreditsPart({ page = '1' }: { readonly page?: string }) {
  const { slug, role } = useWorkspace();
  const balance = useOperation('getBalance', {});
  const number = Math.max(1, Math.trunc(Number(page)) || 1);
  const query = { limit: PAGE, offset: (number - 1) * PAGE };
  const transactions = useOperation('listTransactions', { query });
  const [isBuying, setBuying] = useState(false);
  const error = balance.error ?? transactions.error;
  if (error) {
    return <ErrorBox error={error} onRetry={() => void Promise.all([balance.refetch(), transactions.refetch()])} />;
  }
  if (!balance.data || !transactions.data) return <Loading />;
  const { balance_cents, debt_cents } = balance.data;
  const rows = transactions.data;
  const linkTo = (to: number) => ({ params: { workspace: slug }, search: { tab: 'credits', page: String(to) } });
  return (
    <>
      <div className="flex flex-wrap items-end gap-3">
        <div className="min-w-0 grow">
          <Figures
            label="Balance"
            figures={[
              { name: 'Balance', value: <Credits cents={balance_cents} />, note: 'credits in US dollars' },
              ...(debt_cents > 0
                ? [
                    {
                      name: 'Debt',
                      value: <Credits cents={debt_cents} />,
                      note: 'blocks paid calls until it is covered',
                    },
                  ]
                : []),
            ]}
          />
        </div>
        {role === 'owner' && (
          <Button variant="primary" icon={Plus} onPress={() => setBuying(true)}>
            Buy credits
          </Button>
        )}
      </div>
      <Section title="Transactions" isFramed={false}>
        <Table
          label="Transactions"
          rows={rows}
          keyOf={({ id }) => id}
          columns={[
            { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
            {
              title: 'What',
              cell: ({ transaction_type, type, description, reference_id, receipt_url }) => (
                <span className="flex min-w-0 flex-col">
                  <span>{KINDS[transaction_type] ?? transaction_type}</span>
                  <span className="text-xs text-soft">
                    {description}{' '}
                    {reference_id !== null && type !== 'top_up' && ['charge', 'refund'].includes(transaction_type) && (
                      <Link
                        to="/$workspace/runs/$run"
                        params={{ workspace: slug, run: reference_id }}
                        className="underline"
                      >
                        Run
                      </Link>
                    )}
                    {receipt_url !== null && <OutsideLink href={receipt_url}>Receipt</OutsideLink>}
                  </span>
                </span>
              ),
            },
            { title: 'Amount', cell: ({ amount_cents }) => <Signed cents={amount_cents} />, isNumber: true },
            {
              title: 'Balance after',
              cell: ({ balance_after_cents, debt_after_cents }) => (
                <Credits cents={balance_after_cents - debt_after_cents} />
              ),
              isNumber: true,
              from: 'sm',
            },
          ]}
          empty={
            <Empty
              icon={Wallet}
              title={number > 1 ? 'No older transactions' : 'No transactions yet'}
              command={number > 1 ? undefined : `${COMMAND} billing add 20`}
            >
              {number === 1 && 'Only paid agents need credits. Buy some above, or from a terminal:'}
            </Empty>
          }
        />
        {(number > 1 || rows.length === PAGE) && (
          <p className="mt-2 flex gap-3 text-soft">
            Page {number}
            {number > 1 && (
              <Link to="/$workspace/billing" {...linkTo(number - 1)}>
                Newer
              </Link>
            )}
            {rows.length === PAGE && (
              <Link to="/$workspace/billing" {...linkTo(number + 1)}>
                Older
              </Link>
            )}
          </p>
        )}
      </Section>
      {isBuying && <TopUp onClose={() => setBuying(false)} />}
    </>
  );
}

const Signed = ({ cents }: { readonly cents: number }) => (
  <span className="whitespace-nowrap">
    {cents > 0 ? '+' : '−'}
    <Credits cents={Math.abs(cents)} />
  </span>
);
