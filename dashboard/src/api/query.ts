import {
  QueryCache,
  QueryClient,
  type QueryKey,
  type UseQueryOptions,
  type UseQueryResult,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { toast } from '../ui/toast.tsx';
import { type AnswerOf, type ArgumentsOf, call, type OperationName } from './client.ts';
import { ApiError } from './error.ts';
import { useMaybeWorkspace } from './session.ts';

const RETRIES = 2;

/** Errors that another try may mend. */
const mayPass = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 0 || error.status === 502 || error.status === 503);

export function createQueryClient(onSignedOut: () => void): QueryClient {
  const signedOut = (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) onSignedOut();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError: signedOut }),
    defaultOptions: {
      queries: {
        // A page that is opened again asks again: events that came while it was closed did not reach it.
        staleTime: 0,
        retry: (count, error) => count < RETRIES && mayPass(error),
      },
      mutations: { onError: signedOut },
    },
  });
}

/** Key of an operation's answers. Without arguments: of all of them. */
export const keyOf = (name: OperationName, ...rest: readonly unknown[]): QueryKey => [name, ...rest];

type QueryChoices<Name extends OperationName, Shown> = Omit<
  UseQueryOptions<AnswerOf<Name>, Error, Shown>,
  'queryKey' | 'queryFn'
>;

/**
 * The answer of an operation that reads, in the workspace of the page. Its key is `[operationId, arguments, workspace id]`.
 */
export function useOperation<Name extends OperationName, Shown = AnswerOf<Name>>(
  name: Name,
  args: ArgumentsOf<Name>,
  choices?: QueryChoices<Name, Shown>,
): UseQueryResult<Shown> {
  const workspaceId = useMaybeWorkspace()?.id;
  return useQuery({
    ...choices,
    queryKey: keyOf(name, args, workspaceId),
    queryFn: ({ signal }) => call(name, args, { workspaceId, signal }),
  });
}

interface Pages<Name extends OperationName, Row> {
  /** The arguments of the page after `cursor`, of the first one without it. */
  readonly args: (cursor: string | undefined) => ArgumentsOf<Name>;
  readonly rowsOf: (page: AnswerOf<Name>) => readonly Row[];
  /** The cursor of the page after this one; `undefined` after the last one. `known`: rows up to its end. */
  readonly nextOf: (page: AnswerOf<Name>, known: number) => string | undefined;
  readonly enabled?: boolean;
  readonly staleTime?: number;
  readonly refetchInterval?: number | false;
}

/** All rows of an operation that answers in pages: those of the first page at once, the others as they come. */
export function useAllRows<Name extends OperationName, Row>(
  name: Name,
  { args, rowsOf, nextOf, ...choices }: Pages<Name, Row>,
) {
  const workspaceId = useMaybeWorkspace()?.id;
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery({
    ...choices,
    queryKey: keyOf(name, 'all', args(undefined), workspaceId),
    queryFn: ({ pageParam, signal }) => call(name, args(pageParam), { workspaceId, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page, pages) => nextOf(page, pages.flatMap(rowsOf).length),
  });
  const isMore = hasNextPage && !isFetching && !error;
  useEffect(() => {
    if (isMore) void fetchNextPage();
  }, [isMore, fetchNextPage]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the same for all pages of an operation.
  const rows = useMemo(() => data?.pages.flatMap(rowsOf), [data]);
  return { rows, pages: data?.pages.length ?? 0, isWhole: data !== undefined && !hasNextPage, error, refetch };
}

/**
 * An operation that changes something. What `stale` names is fetched again afterwards. An error becomes a toast, unless `silent`:
 * then the caller shows it.
 */
export function useAction<Name extends OperationName>(
  name: Name,
  { stale = [], silent = false }: { readonly stale?: readonly OperationName[]; readonly silent?: boolean } = {},
) {
  const workspaceId = useMaybeWorkspace()?.id;
  const client = useQueryClient();
  return useMutation<AnswerOf<Name>, Error, ArgumentsOf<Name>>({
    mutationFn: (args) => call(name, args, { workspaceId }),
    onSuccess: () => Promise.all(stale.map((each) => client.invalidateQueries({ queryKey: keyOf(each) }))),
    ...(!silent && { onError: (error: Error) => void toast({ tone: 'bad', error }) }),
  });
}
