import { useInfiniteQuery } from '@tanstack/react-query';
import { FlaskConical } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { keyOf } from '../../../api/query.ts';
import { useWorkspace } from '../../../api/session.ts';
import { API_URL, COMMAND } from '../../../base.ts';
import { Button } from '../../../ui/button.tsx';
import { count, Money } from '../../../ui/data/numbers.tsx';
import { Status } from '../../../ui/data/status.tsx';
import { Table } from '../../../ui/data/table.tsx';
import { Time } from '../../../ui/data/time.tsx';
import { Empty } from '../../../ui/empty.tsx';
import { ErrorBox } from '../../../ui/error-box.tsx';
import { OutsideLink } from '../../../ui/link.tsx';
import { Loading } from '../../../ui/loading.tsx';
import type { TabProps } from '../version.ts';
import { EvaluateDialog } from './evaluate-dialog.tsx';
import { type Evaluation, POLL_MS, progressText, shareText, stateOf, versionsText } from './evaluation.ts';

/** Maximum number of pages of the list that are fetched again while an evaluation runs. */
const MAX_POLLED_PAGES = 3;

/** The evaluations of all versions of an agent, newest first. */
export default function EvalsTab({ agent, versions }: TabProps) {
  const { id: workspaceId, slug: workspace } = useWorkspace();
  const [isStarting, setStarting] = useState(false);
  const params = { id: agent.id };
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: keyOf('listEvals', 'pages', params, workspaceId),
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listEvals', { params, query: { cursor } }, { workspaceId, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    refetchInterval: ({ state: { data: pages } }) =>
      pages !== undefined && pages.pages.length <= MAX_POLLED_PAGES && evalsOf(pages).some(isRunning) ? POLL_MS : false,
  });
  const button = (
    <Button variant="primary" icon={FlaskConical} onPress={() => setStarting(true)}>
      Evaluate
    </Button>
  );
  const dialog = isStarting && <EvaluateDialog agent={agent} versions={versions} onClose={() => setStarting(false)} />;
  if (data === undefined) return error ? <ErrorBox error={error} onRetry={() => void refetch()} /> : <Loading />;
  const evals = evalsOf(data);
  if (evals.length === 0) {
    return (
      <>
        <Empty
          icon={FlaskConical}
          title="No evaluations yet"
          command={`${COMMAND} eval ${agent.name}`}
          action={
            <span className="flex flex-wrap items-center justify-center gap-x-4 gap-y-2">
              {button}
              <OutsideLink href={`${API_URL}/docs/evals`}>How evaluations work</OutsideLink>
            </span>
          }
        >
          An evaluation runs the cases of suites on a version, and says whether it answers well, or worse than another.
        </Empty>
        {dialog}
      </>
    );
  }
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="text-soft">Cases of suites, run on a version of this agent.</p>
        {button}
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      <Table
        label="Evaluations"
        rows={evals}
        keyOf={({ eval_id }) => eval_id}
        linkOf={({ eval_id }) => ({
          to: '/$workspace/agents/$name/evals/$eval',
          params: { workspace, name: agent.name, eval: eval_id },
        })}
        columns={[
          {
            title: 'Version',
            cell: versionsText,
          },
          { title: 'Verdict', cell: (each) => <Verdict evaluation={each} /> },
          { title: 'Cases passed', cell: ({ candidate }) => (candidate ? shareText(candidate) : '–'), from: 'sm' },
          { title: 'Errors', cell: ({ counts: { errors } }) => count(errors), isNumber: true, from: 'md' },
          { title: 'Cost', cell: ({ cost_usd }) => <Money usd={cost_usd} />, isNumber: true, from: 'sm' },
          { title: 'Started', cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
      />
      {hasNextPage && (
        <div>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Show older ones
          </Button>
        </div>
      )}
      {dialog}
    </>
  );
}

const evalsOf = ({ pages }: { readonly pages: readonly { readonly evals: readonly Evaluation[] }[] }) =>
  pages.flatMap(({ evals }) => evals);

const isRunning = ({ status }: Evaluation): boolean => status === 'running';

function Verdict({ evaluation }: { readonly evaluation: Evaluation }) {
  return (
    <span className="flex flex-wrap items-center gap-x-2">
      <Status value={stateOf(evaluation)} />
      {isRunning(evaluation) && <span className="text-xs text-soft">{progressText(evaluation)}</span>}
    </span>
  );
}
