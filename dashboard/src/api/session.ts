import { queryOptions, useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { AnswerOf } from './client.ts';
import { call } from './client.ts';

export type Workspace = AnswerOf<'listWorkspaces'>['workspaces'][number];
export type Who = AnswerOf<'getSession'>;

const MINUTE = 60_000;

/** Who is signed in. Fails with 401 without a session. */
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

/** The workspace that the address names; `undefined` on pages of none, and for a slug that the user has no part in. */
export function useMaybeWorkspace(): Workspace | undefined {
  const { workspace: slug } = useParams({ strict: false });
  // Not suspended: also asked on pages before the sign-in.
  const { data } = useQuery({ ...workspacesQuery, enabled: slug !== undefined });
  return data?.workspaces.find((each) => each.slug === slug);
}

/** The workspace of a page below `/$workspace`, whose frame shows no page without one. */
export function useWorkspace(): Workspace {
  const workspace = useMaybeWorkspace();
  if (workspace === undefined) throw new Error('This page is not in a workspace.');
  return workspace;
}
