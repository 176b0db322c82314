import { useMemo } from 'react';
import { useWorkspace } from '../../api/session.ts';
import { count, Money } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Duration } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { type Called, callTree } from './call-tree.ts';
import type { RunParams } from './run-params.ts';
import { useWaterfall } from './use-waterfall.ts';

/** Call tree of a chain, with the cost of each run, alone and including sub-calls. */
export function TreeTab({ params, isRunning }: { readonly params: RunParams; readonly isRunning: boolean }) {
  const { slug: workspace } = useWorkspace();
  const { data, error, refetch } = useWaterfall(params, isRunning);
  const rows = useMemo(() => callTree(data?.runs ?? []), [data]);
  if (error && !data) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  const tokens = ({ input_tokens, output_tokens }: Called['run']) => (input_tokens ?? 0) + (output_tokens ?? 0);
  return (
    <Table
      label="Runs of the chain"
      rows={rows}
      keyOf={({ run }) => run.run_id}
      linkOf={({ run }) => ({
        to: '/$workspace/runs/$run',
        params: { workspace, run: run.run_id },
        search: { tab: 'tree' },
      })}
      columns={[
        {
          title: 'Run',
          cell: ({ run, depth }) => (
            <span className="inline-block" style={{ paddingLeft: `${Math.min(depth, 12) * 1.25}rem` }}>
              {escapeText(`${run.agent_name}@${run.agent_version}`)}{' '}
              <span className="font-mono text-xs text-soft">{run.run_id.slice(0, 8)}</span>
              {run.run_id === params.run_id && <span className="text-soft"> · this run</span>}
            </span>
          ),
        },
        { title: 'Status', cell: ({ run }) => <Status value={run.status} /> },
        { title: 'Duration', cell: ({ run }) => <Duration ms={run.duration_ms} />, isNumber: true, from: 'sm' },
        {
          title: 'Tokens',
          cell: ({ run }) => (tokens(run) === 0 ? <span className="text-soft">–</span> : count(tokens(run))),
          isNumber: true,
          from: 'md',
        },
        { title: 'Cost', cell: ({ run }) => <Cost usd={run.cost_usd} />, isNumber: true, from: 'sm' },
        {
          title: 'With sub-calls',
          cell: ({ costWithCalls }) => <Cost usd={costWithCalls} />,
          isNumber: true,
          from: 'md',
        },
      ]}
    />
  );
}

const Cost = ({ usd }: { readonly usd: number | null }) =>
  usd === null ? <span className="text-soft">–</span> : <Money usd={usd} />;
