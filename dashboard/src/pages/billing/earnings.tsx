import { Coins, Download } from 'lucide-react';
import { useState } from 'react';
import { sendOperation } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Figures } from '../../ui/data/figures.tsx';
import { Credits, count } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { download } from '../../ui/text/viewer.tsx';
import { toast } from '../../ui/toast.tsx';

/** Earnings from other workspaces' calls of this workspace's agents. The platform operator pays them out. */
export function Earnings() {
  const { id: workspaceId } = useWorkspace();
  const { data, error, refetch } = useOperation('getEarnings', { query: {} });
  const [saving, setSaving] = useState<string>();
  const save = async (month: string) => {
    setSaving(month);
    try {
      const answer = await sendOperation('getEarnings', { query: { month, format: 'csv' } }, { workspaceId });
      if (!answer.ok) throw new Error(`The earnings of ${month} could not be read (HTTP ${answer.status}).`);
      download(`earnings-${month}.csv`, await answer.text(), 'text/csv');
    } catch (failure) {
      toast({ tone: 'bad', error: failure });
    } finally {
      setSaving(undefined);
    }
  };
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  const months = [...new Set(data.by_month.map(({ month }) => month))];
  return (
    <>
      <Figures
        label="Earnings"
        figures={[
          { name: 'Total earned', value: <Credits cents={data.total_cents} />, note: 'paid out by the operator' },
        ]}
      />
      <Section
        title="By month"
        isFramed={false}
        actions={months.slice(0, 3).map((month) => (
          <Button
            key={month}
            icon={Download}
            isPending={saving === month}
            aria-label={`Download the calls of ${month} as CSV`}
            onPress={() => void save(month)}
          >
            {month}
          </Button>
        ))}
      >
        <Table
          label="Earnings by month"
          rows={data.by_month}
          keyOf={({ month, agent }) => `${month} ${agent}`}
          columns={[
            { title: 'Month', cell: ({ month }) => month },
            { title: 'Agent', cell: ({ agent }) => agent },
            { title: 'Calls', cell: ({ calls }) => count(calls), isNumber: true },
            { title: 'Paid', cell: ({ price_cents }) => <Credits cents={price_cents} />, isNumber: true, from: 'sm' },
            {
              title: 'Platform fee',
              cell: ({ fee_cents }) => <Credits cents={fee_cents} />,
              isNumber: true,
              from: 'sm',
            },
            { title: 'Earned', cell: ({ earned_cents }) => <Credits cents={earned_cents} />, isNumber: true },
          ]}
          empty={
            <Empty icon={Coins} title="Nothing earned yet">
              A public agent with a price earns credits each time another workspace runs it successfully. Its manifest
              sets the price.
            </Empty>
          }
        />
      </Section>
    </>
  );
}
