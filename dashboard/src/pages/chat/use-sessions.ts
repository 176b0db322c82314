import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { keyOf, useAction } from '../../api/query.ts';

export type Session = AnswerOf<'listSessions'>['sessions'][number];

/** Sessions that are read at once. */
const PAGE = 50;

/** The sessions of an agent, newest first: the first page, and more on demand. @param agent `org/name` */
export function useSessions(workspace_id: string, agent: string) {
  const client = useQueryClient();
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useInfiniteQuery({
    queryKey: keyOf('listSessions', workspace_id, agent),
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listSessions', { params: { workspace_id }, query: { agent, limit: PAGE, cursor } }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const rows = useMemo(() => data?.pages.flatMap(({ sessions }) => sessions), [data]);
  const renaming = useAction('updateSession', { stale: ['listSessions'], silent: true });
  const removal = useAction('deleteAgentSession', { stale: ['listSessions'], silent: true });
  return {
    rows,
    error: rows === undefined ? error : null,
    hasMore: hasNextPage,
    isLoadingMore: isFetchingNextPage,
    more: () => void fetchNextPage(),
    refetch: () => void refetch(),
    renew: () => client.invalidateQueries({ queryKey: keyOf('listSessions') }),
    rename: (session_id: string, title: string) =>
      renaming.mutateAsync({ params: { workspace_id, session_id }, body: { title } }),
    remove: (session_id: string) => removal.mutateAsync({ params: { workspace_id, session_id } }),
  };
}

export type Sessions = ReturnType<typeof useSessions>;
