import { queryOptions, useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { AnswerOf } from './client.ts';
import { call } from './client.ts';

export type Workspace = AnswerOf<'listWorkspaces'>['workspaces'][number];
export type Who = AnswerOf<'getSession'>;

const MINUTE = 60_000;

/** The signed-in user. Fails with 401 without a session. */
export const whoQuery = queryOptions({
  queryKey: ['getSession', {}],
  queryFn: ({ signal }) => call('getSession', {}, { signal }),
  staleTime: MINUTE,
});

export const workspacesQuery = queryOptions({
  queryKey: ['listWorkspaces', {}],
  queryFn: ({ signal }) => call('listWorkspaces', {}, { signal }),
  staleTime: MINUTE,
});

export const useWho = (): Who => useSuspenseQuery(whoQuery).data;

export const useWorkspaces = (): readonly Workspace[] => useSuspenseQuery(workspacesQuery).data.workspaces;

/** Returns the workspace in the URL; `undefined` if the page has none or the user is not a member. */
export function useMaybeWorkspace(): Workspace | undefined {
  const { workspace: slug } = useParams({ strict: false });
  // Not a suspense query, because pages before the sign-in use it too.
  const { data } = useQuery({ ...workspacesQuery, enabled: slug !== undefined });
  return data?.workspaces.find((each) => each.slug === slug);
}

/** Returns the workspace of a page below `/$workspace`; its frame renders no page without one. */
export function useWorkspace(): Workspace {
  const workspace = useMaybeWorkspace();
  if (workspace === undefined) throw new Error('This page is not in a workspace.');
  return workspace;
}
