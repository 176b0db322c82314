import { getRouteApi } from '@tanstack/react-router';
import { Bot, LayoutGrid, Search } from 'lucide-react';
import { useAgents } from '../../api/agents.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { LinkButton } from '../../ui/button.tsx';
import { count, percent } from '../../ui/data/numbers.tsx';
import { Badge, Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { duration, Time } from '../../ui/data/time.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Hinted } from '../../ui/tooltip.tsx';
import { PublishDrop } from './publish-drop.tsx';

const route = getRouteApi('/signed-in/$workspace/agents');
/** Maximum number of loaded pages that are refetched after each run. */
const MAX_FRESH_PAGES = 2;
const TYPES = ['prompt', 'tool', 'agent', 'skill'];

/** Latest versions of the workspace's agents, with success rates of the last week. */
export function AgentsPage() {
  const { id, slug } = useWorkspace();
  const { q = '', type = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const { rows: agents, pages, isWhole, error, refetch } = useAgents();
  const metrics = useOperation(
    'getWorkspaceMetrics',
    { params: { workspace_id: id }, query: { days: 7 } },
    { staleTime: 60_000 },
  );
  const state = useLiveRefresh(pages <= MAX_FRESH_PAGES ? ['agent', 'run'] : ['agent'], ['listAgents']);
  const own = metrics.data?.agents.filter(({ org_slug }) => org_slug === slug);
  const week = new Map(own?.map((each) => [each.agent_name, each]));
  const shown = (agents ?? []).filter(
    (each) => each.name.includes(q.toLowerCase()) && (type === '' || each.type === type),
  );
  const change = (next: { q?: string; type?: string }) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  return (
    <PublishDrop>
      {(buttons) => (
        <Page
          title="Agents"
          actions={
            <>
              <LinkButton to="/$workspace/examples" params={{ workspace: slug }} icon={LayoutGrid}>
                Browse examples
              </LinkButton>
              {buttons}
              <LiveBadge state={state} />
            </>
          }
        >
          {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
          {!agents && !error && <Loading />}
          {agents?.length === 0 && (
            <Empty
              icon={Bot}
              title="No agents yet"
              command={`${COMMAND} init hello --template prompt\n${COMMAND} publish hello`}
            >
              An agent is a prompt, a program, or a model with tools.{' '}
              <Link to="/$workspace/examples" params={{ workspace: slug }} className="underline">
                Use an example
              </Link>
              , drop a folder here, or create one from a template and publish it:
            </Empty>
          )}
          {agents !== undefined && agents.length > 0 && (
            <>
              <div className="flex flex-wrap gap-2" data-filter>
                <div className="w-64 max-w-full">
                  <TextField
                    label="Filter agents"
                    isLabelHidden
                    placeholder="Filter by name"
                    icon={<Search size={14} aria-hidden />}
                    value={q}
                    onChange={(next) => change({ q: next })}
                  />
                </div>
                <div className="w-36">
                  <Select
                    label="Type"
                    isLabelHidden
                    value={type || 'all'}
                    onChange={(next) => change({ type: next === 'all' ? '' : next })}
                    choices={[{ id: 'all', label: 'All types' }, ...TYPES.map((each) => ({ id: each, label: each }))]}
                  />
                </div>
              </div>
              <Table
                label="Agents"
                rows={shown}
                keyOf={({ id }) => id}
                linkOf={({ name }) => ({ to: '/$workspace/agents/$name', params: { workspace: slug, name } })}
                columns={[
                  { title: 'Name', cell: ({ name }) => name },
                  {
                    title: 'Version',
                    cell: ({ version, versions = 1 }) => (
                      <>
                        {version} {versions > 1 && <span className="text-soft">of {versions}</span>}
                      </>
                    ),
                  },
                  { title: 'Type', cell: (agent) => <Badge>{agent.type}</Badge>, from: 'sm' },
                  {
                    title: 'Runs, 7 days',
                    cell: ({ name }) => count(week.get(name)?.total_runs ?? 0),
                    isNumber: true,
                    from: 'md',
                  },
                  {
                    title: 'Failed',
                    cell: ({ name }) => failedOf(week.get(name)),
                    isNumber: true,
                    from: 'md',
                  },
                  {
                    title: 'Median time',
                    cell: ({ name }) => <Median ms={week.get(name)?.p50_latency_ms ?? 0} />,
                    isNumber: true,
                    from: 'lg',
                  },
                  {
                    title: 'Last run',
                    cell: ({ last_run }) =>
                      last_run ? (
                        <span className="flex items-center gap-2">
                          <Status value={last_run.status} /> <Time at={last_run.started_at} />
                        </span>
                      ) : (
                        <span className="text-soft">never</span>
                      ),
                    from: 'sm',
                  },
                  { title: 'Published', cell: ({ created_at }) => <Time at={created_at} />, from: 'lg' },
                ]}
                empty={isWhole ? <NoMatch icon={Search} title="No agent matches" /> : <Loading />}
              />
              {!isWhole && shown.length > 0 && <p className="text-soft">Loading more agents…</p>}
            </>
          )}
        </Page>
      )}
    </PublishDrop>
  );
}

function failedOf(week: { total_runs: number; failed: number; timeout: number; top_error: string | null } | undefined) {
  const share = percent((week?.failed ?? 0) + (week?.timeout ?? 0), week?.total_runs ?? 0);
  return week?.top_error ? <Hinted text={() => `Most common: ${week.top_error}`}>{share}</Hinted> : share;
}

const Median = ({ ms }: { readonly ms: number }) =>
  ms === 0 ? <span className="text-soft">–</span> : <span className="whitespace-nowrap">{duration(ms)}</span>;
