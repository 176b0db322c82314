import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { UserCheck } from 'lucide-react';
import { useEffect } from 'react';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ApprovalCard, WaitingCards } from '../../approvals/approval-cards.tsx';
import { type Approval, DECIDED_KINDS, POLL_MS } from '../../approvals/waiting.ts';
import { API_URL } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';

const route = getRouteApi('/signed-in/$workspace/approvals');
const PAGE = 50;
const MAX_POLLED_PAGES = 2;

/** Calls of tools and questions of agents: what waits for a decision of people, and what they have decided. */
export function ApprovalsPage() {
  const { id: workspace_id } = useWorkspace();
  const given = route.useSearch();
  const navigate = route.useNavigate();
  const isDecided = given.show === 'decided';
  const query = {
    kinds: DECIDED_KINDS,
    status: isDecided ? undefined : ('waiting' as const),
    agent_name: given.agent,
    limit: PAGE,
  };
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: keyOf('listApprovals', query, workspace_id),
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listApprovals', { params: { workspace_id }, query: { ...query, cursor } }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    // Each page of the list is asked for again.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > MAX_POLLED_PAGES ? false : POLL_MS),
  });
  const all = data?.pages.flatMap(({ approvals }) => approvals);
  const shown = isDecided ? all?.filter(({ status }) => status !== 'waiting') : all;
  // A page of the list may have nothing of this tab, and the next ones may.
  const seeksMore = shown?.length === 0 && hasNextPage && !isFetchingNextPage && !error;
  useEffect(() => {
    if (seeksMore) void fetchNextPage();
  }, [seeksMore, fetchNextPage]);
  return (
    <Page
      title="Approvals"
      description="Calls of tools that wait until somebody approves them, and questions of agents."
      tabs={
        <Tabs
          label="Approvals by state"
          tabs={[
            { label: 'Waiting', search: { ...given, show: undefined }, isCurrent: !isDecided },
            { label: 'Decided', search: { ...given, show: 'decided' }, isCurrent: isDecided },
          ]}
        />
      }
    >
      <div className="flex flex-wrap items-end gap-2" data-filter>
        <TextField
          label="Agent"
          placeholder="Exact name"
          value={given.agent ?? ''}
          onChange={(agent) =>
            void navigate({ search: (now) => ({ ...now, agent: agent || undefined }), replace: true })
          }
        />
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!shown && !error && <Loading />}
      {shown && !isDecided && (
        <WaitingCards key={given.agent} waiting={shown} empty={<NothingWaits agent={given.agent} />} />
      )}
      {shown && isDecided && !seeksMore && <DecidedCards decided={shown} agent={given.agent} />}
      {hasNextPage && (
        <div>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Show older ones
          </Button>
        </div>
      )}
    </Page>
  );
}

function NothingWaits({ agent }: { readonly agent: string | undefined }) {
  if (agent !== undefined) return <NoMatch icon={UserCheck} title="Nothing of this agent waits for you" />;
  return (
    <Empty
      icon={UserCheck}
      title="Nothing waits for you"
      action={<OutsideLink href={`${API_URL}/docs/approvals`}>How agents ask</OutsideLink>}
    >
      An agent can ask before it calls a tool that sends, pays or deletes, and it can ask questions. You decide here.
    </Empty>
  );
}

function DecidedCards({
  decided,
  agent,
}: {
  readonly decided: readonly Approval[];
  readonly agent: string | undefined;
}) {
  if (decided.length === 0) {
    const search = { show: 'decided' };
    if (agent !== undefined)
      return <NoMatch icon={UserCheck} title="Nothing of this agent was decided" search={search} />;
    return (
      <Empty icon={UserCheck} title="Nothing was decided yet">
        Decisions stay here for as long as their runs are kept.
      </Empty>
    );
  }
  return (
    <ul aria-label="Decided" className="flex min-w-0 flex-col gap-3">
      {decided.map((approval) => (
        <li key={approval.id} data-row="" className="min-w-0">
          <ApprovalCard approval={approval} />
        </li>
      ))}
    </ul>
  );
}
