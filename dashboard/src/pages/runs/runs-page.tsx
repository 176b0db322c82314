import { type InfiniteData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Activity, Columns2, Eye, EyeOff, TableProperties } from 'lucide-react';
import { useCallback, useMemo, useState } from 'react';
import { useBrowserList } from '../../api/browser-list.ts';
import { type AnswerOf, call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useWorkspaceEvents } from '../../live/use-live.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { NoCalls, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Page } from '../../ui/page.tsx';
import { BulkBar, BulkProgress, type BulkSelection } from './bulk.tsx';
import { MAX_NEW_RUNS, useFreshRuns } from './fresh-runs.ts';
import {
  containsText,
  FILTER_NAMES,
  type Filters,
  isTextSearch,
  matches,
  queryOf,
  RunFilters,
} from './run-filters.tsx';
import { COLUMN_NAMES, type ColumnName, RunTable } from './run-table.tsx';

const PAGE = 100;
const NONE: ReadonlySet<string> = new Set();

type Pages = InfiniteData<AnswerOf<'listRuns'>, string | undefined>;

/** Runs of the workspace. New runs wait behind a button, so that rows do not move under the pointer. */
export function RunsPage() {
  const { id: workspace_id, slug } = useWorkspace();
  const search = useSearch({ strict: false }) as Filters & { readonly bulk?: string };
  const navigate = useNavigate();
  const change = (next: Filters & { readonly bulk?: string }) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, ...next }), replace: true } as never);
  const { bulk, ...filters } = search;
  const filterKey = JSON.stringify(filters);
  const [chosen, choose] = useState(NONE);
  const client = useQueryClient();
  // A relative time range is fixed when it is selected and stays fixed while the page is open.
  const query = useMemo(() => queryOf(JSON.parse(filterKey), Date.now()), [filterKey]);
  const queryKey = keyOf('listRuns', query, workspace_id);
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetching, isFetchingNextPage } = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listRuns', { params: { workspace_id }, query: { ...query, limit: PAGE, cursor } }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    // Events report new runs; a refetch would load every page again.
    refetchOnWindowFocus: false,
  });
  const loaded = useMemo(() => data?.pages.flatMap((page) => page.runs) ?? [], [data]);
  const listed = useMemo(() => new Set(loaded.map(({ id }) => id)), [loaded]);
  const isText = isTextSearch(filters);
  const { q = '' } = filters;
  const runs = useMemo(() => (isText ? loaded.filter((run) => containsText(run, q)) : loaded), [loaded, isText, q]);
  const [hiddenColumns, hideColumns] = useBrowserList('run-columns-hidden', isColumn);
  const hidden = useMemo(() => new Set(hiddenColumns), [hiddenColumns]);
  const isListed = (id: string) => listed.has(id);
  const { fresh, onEvent, clear } = useFreshRuns(isListed, (ends) =>
    client.setQueryData<Pages>(queryKey, (old) => old && withEnds(old, ends)),
  );
  const [isPaused, setPaused] = useState(false);
  /** Refetches only the newest page; the others are loaded again on scroll. */
  const restart = async () => {
    client.setQueryData<Pages>(
      queryKey,
      (old) => old && { pages: old.pages.slice(0, 1), pageParams: old.pageParams.slice(0, 1) },
    );
    await refetch();
  };
  const state = useWorkspaceEvents(['run'], onEvent, { isPaused, onGap: () => void restart() });
  const unseen = useMemo(
    () => [...fresh].filter(([id, told]) => !listed.has(id) && matches(JSON.parse(filterKey), told)).length,
    [fresh, listed, filterKey],
  );
  const show = async () => {
    await restart();
    clear();
    window.scrollTo({ top: 0 });
  };
  const isFiltered = FILTER_NAMES.some((name) => filters[name] !== undefined);
  const more = useCallback(() => {
    // A text may match few runs, so the user decides how far back to search.
    if (hasNextPage && !isFetching && !isText) void fetchNextPage();
  }, [hasNextPage, isFetching, isText, fetchNextPage]);
  return (
    <Page title="Runs" isWide actions={<LiveBadge state={state} onPause={() => setPaused(!isPaused)} />}>
      <RunFilters filters={filters} onChange={change} />
      {bulk !== undefined && <BulkProgress key={bulk} id={bulk} onClose={() => change({ bulk: undefined })} />}
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {(runs.length > 0 || unseen > 0) && (
        <div className="flex flex-wrap items-center gap-3">
          {runs.length > 0 && (chosen.size > 0 || isFiltered) && (
            <BulkBar
              meant={isText && chosen.size === 0 ? undefined : meantBy(chosen, query)}
              chosen={chosen.size}
              onStart={(started) => {
                choose(NONE);
                change({ bulk: started });
              }}
            />
          )}
          {chosen.size === 2 && (
            <LinkButton
              icon={Columns2}
              to="/$workspace/runs/compare"
              params={{ workspace: slug }}
              search={pairOf(chosen)}
            >
              Compare
            </LinkButton>
          )}
          <span className="grow" />
          <ColumnMenu hidden={hidden} onChange={(next) => hideColumns([...next])} />
          {unseen > 0 && (
            <Button variant="primary" onPress={() => void show()}>
              {unseen === MAX_NEW_RUNS ? `${count(MAX_NEW_RUNS)} or more new` : `${unseen} new`}
            </Button>
          )}
        </div>
      )}
      {runs.length > 0 && <RunTable runs={runs} chosen={chosen} onChoose={choose} hidden={hidden} onEnd={more} />}
      {isFetchingNextPage && <Loading />}
      {data && runs.length === 0 && !hasNextPage && <NoRuns isFiltered={isFiltered} />}
      {data && hasNextPage && (runs.length === 0 || isText) && (
        <div className="flex flex-col items-start gap-2">
          <p className="text-soft">
            {runs.length === 0 ? 'No recent runs match.' : `Searched the latest ${count(loaded.length)} runs.`}
          </p>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Search older runs
          </Button>
        </div>
      )}
    </Page>
  );
}

const isColumn = (value: unknown): value is ColumnName => COLUMN_NAMES.some((name) => name === value);

/** Shows and hides columns; this browser stores the choice. */
function ColumnMenu({
  hidden,
  onChange,
}: {
  readonly hidden: ReadonlySet<ColumnName>;
  readonly onChange: (hidden: ReadonlySet<ColumnName>) => void;
}) {
  return (
    <Menu
      label="Columns"
      entries={COLUMN_NAMES.map((name) => ({
        id: name,
        label: `${hidden.has(name) ? 'Show' : 'Hide'} ${name}`,
        icon: hidden.has(name) ? Eye : EyeOff,
        run: () => onChange(hidden.symmetricDifference(new Set([name]))),
      }))}
    >
      <Button variant="quiet" icon={TableProperties}>
        Columns
      </Button>
    </Menu>
  );
}

function pairOf(chosen: ReadonlySet<string>): { readonly a?: string; readonly b?: string } {
  const [a, b] = chosen;
  return { a, b };
}

function NoRuns({ isFiltered }: { readonly isFiltered: boolean }) {
  const { slug } = useWorkspace();
  if (isFiltered) return <NoMatch icon={Activity} title="No run matches these filters" />;
  return (
    <NoCalls icon={Activity} title="No runs yet" slug={slug}>
      Every call of an agent is a run. Start one in the playground of an agent, or from a terminal:
    </NoCalls>
  );
}

/** Returns the selected runs, or the filter. An id prefix is not supported in bulk actions. */
function meantBy(chosen: ReadonlySet<string>, query: ReturnType<typeof queryOf>): BulkSelection | undefined {
  if (chosen.size > 0) return { run_ids: [...chosen] };
  const { run_id_prefix, top_level, exhausted, limit, offset, cursor, ...filter } = query;
  if (run_id_prefix !== undefined) return undefined;
  const flags = {
    ...(top_level !== undefined && { top_level: true }),
    ...(exhausted !== undefined && { exhausted: true }),
  };
  return { filter: { ...filter, ...flags } };
}

/** Returns the pages with the final states of ended runs applied in place. */
const withEnds = (pages: Pages, ends: ReadonlyMap<string, Readonly<Record<string, unknown>>>): Pages => ({
  ...pages,
  pages: pages.pages.map((page) => ({
    ...page,
    runs: page.runs.map((run) => {
      const { status, duration_ms, error_message } = ends.get(run.id) ?? run;
      return ends.has(run.id) ? ({ ...run, status, duration_ms, error_message } as typeof run) : run;
    }),
  })),
});
