import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Activity } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useWorkspaceEvents } from '../../live/use-live.ts';
import type { LiveEvent } from '../../live/watch.ts';
import { Button } from '../../ui/button.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Status } from '../../ui/status.tsx';
import { Table } from '../../ui/table.tsx';
import { Duration, Time } from '../../ui/time.tsx';

const STATUSES = ['running', 'completed', 'failed', 'timeout', 'cancelled'] as const;
const SOURCES = ['api', 'cli', 'agent', 'replay', 'schedule', 'manual', 'webhook', 'service', 'install'];
const PAGE = 100;
/** New runs that are remembered until somebody wants to see them. */
const MOST_FRESH = 1_000;
/** What `run_id_prefix` takes. */
const ID_PREFIX = /^(req_)?(-?[0-9a-f]){7,32}$/i;

interface Filters {
  readonly q?: string;
  readonly status?: (typeof STATUSES)[number];
  readonly agent?: string;
  readonly source?: string;
}

/** The runs of the workspace. What begins meanwhile waits behind a button, so that no row moves under a pointer. */
export function RunsPage() {
  const { id, slug } = useWorkspace();
  const filters = useSearch({ strict: false }) as Filters;
  const navigate = useNavigate();
  const change = (next: Filters) => void navigate({ to: '.', search: { ...filters, ...next }, replace: true });
  const client = useQueryClient();
  const query = {
    limit: PAGE,
    status: filters.status,
    agent_name: filters.agent,
    trigger_source: filters.source,
    run_id_prefix: ID_PREFIX.test(filters.q ?? '') ? filters.q : undefined,
  };
  const queryKey = keyOf('listRuns', query, id);
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listRuns', { params: { workspace_id: id }, query: { ...query, cursor } }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const runs = data?.pages.flatMap((page) => page.runs) ?? [];
  const [fresh, setFresh] = useState<ReadonlyMap<string, LiveEvent['data']>>(new Map());
  const [isPaused, setPaused] = useState(false);
  const isListed = (runId: string) => runs.some((run) => run.id === runId);
  const onEvent = ({ type, data: told }: LiveEvent) => {
    const runId = String(told.run_id);
    if (!isListed(runId)) {
      const now = { ...told, status: type === 'run.started' ? 'running' : told.status };
      setFresh((old) => new Map([...old, [runId, now] as const].slice(-MOST_FRESH)));
    } else if (type === 'run.ended') {
      client.setQueryData<typeof data>(
        queryKey,
        (old) => old && { ...old, pages: old.pages.map(withEnd(runId, told)) },
      );
    }
  };
  const state = useWorkspaceEvents(['run'], onEvent, { isPaused, onGap: () => void refetch() });
  const unseen = [...fresh].filter(([runId, told]) => !isListed(runId) && matches(filters, told)).length;
  const show = async () => {
    await refetch();
    setFresh(new Map());
  };
  const hasFilter = Object.values(filters).some((value) => value !== undefined);
  return (
    <Page title="Runs" actions={<LiveBadge state={state} onPause={() => setPaused(!isPaused)} />}>
      <div className="flex flex-wrap items-end gap-2">
        <TextField
          label="Run id"
          placeholder="7 or more digits of it"
          value={filters.q ?? ''}
          onChange={(q) => change({ q: q.trim() || undefined })}
          error={filters.q === undefined || ID_PREFIX.test(filters.q) ? undefined : '7 or more of 0-9 and a-f'}
        />
        <TextField
          label="Agent"
          placeholder="Its whole name"
          value={filters.agent ?? ''}
          onChange={(agent) => change({ agent: agent || undefined })}
        />
        <Select
          label="Status"
          value={filters.status ?? ''}
          onChange={(status) => change({ status: (status || undefined) as Filters['status'] })}
          choices={choicesOf(STATUSES)}
        />
        <Select
          label="Source"
          value={filters.source ?? ''}
          onChange={(source) => change({ source: source || undefined })}
          choices={choicesOf(SOURCES)}
        />
        {unseen > 0 && (
          <Button look="main" onPress={() => void show()}>
            {unseen === MOST_FRESH ? `${MOST_FRESH} or more new` : `${unseen} new`}
          </Button>
        )}
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Runs"
          rows={runs}
          keyOf={(run) => run.id}
          linkOf={(run) => ({ to: '/$workspace/runs/$run', params: { workspace: slug, run: run.id } })}
          columns={[
            { title: 'Run', cell: (run) => <span className="font-mono">{run.id.slice(0, 8)}</span> },
            { title: 'Status', cell: (run) => <Status value={run.status} /> },
            { title: 'Agent', cell: (run) => `${run.agent_name}@${run.agent_version}` },
            { title: 'Source', cell: (run) => run.trigger_source, from: 'md' },
            { title: 'Started', cell: (run) => <Time at={run.created_at} />, from: 'sm' },
            { title: 'Took', cell: (run) => <Duration ms={run.duration_ms} />, isNumber: true, from: 'sm' },
          ]}
          empty={
            hasFilter ? (
              <Empty icon={Activity} title="No run matches these filters" />
            ) : (
              <Empty icon={Activity} title="No runs yet" command="npx platform run <agent>">
                Every call of an agent is a run. Make one:
              </Empty>
            )
          }
        />
      )}
      {hasNextPage && (
        <div>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Show older runs
          </Button>
        </div>
      )}
    </Page>
  );
}

const choicesOf = (ids: readonly string[]) => [{ id: '', label: 'All' }, ...ids.map((id) => ({ id, label: id }))];

function matches({ status, agent, source, q }: Filters, told: LiveEvent['data']): boolean {
  const id = String(told.run_id);
  return (
    (status === undefined || told.status === status) &&
    (agent === undefined || told.agent_name === agent) &&
    (source === undefined || told.trigger_source === source) &&
    (q === undefined || !ID_PREFIX.test(q) || id.startsWith(q.replace(/^req_/i, '').toLowerCase()))
  );
}

/** The page with how a run ended, where it stands. */
const withEnd =
  (runId: string, { status, duration_ms, error_message }: LiveEvent['data']) =>
  <Listed extends { readonly runs: readonly { readonly id: string }[] }>(page: Listed): Listed => ({
    ...page,
    runs: page.runs.map((run) => (run.id === runId ? { ...run, status, duration_ms, error_message } : run)),
  });
