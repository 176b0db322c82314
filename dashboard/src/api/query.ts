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
import { ApiError } from '../api-error.ts';
import { toast } from '../ui/toast.tsx';
import { type AnswerOf, type ArgumentsOf, call, type OperationName } from './client.ts';
import { useMaybeWorkspace } from './session.ts';

const RETRIES = 2;

/** Whether a retry may succeed. */
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
        // A reopened page refetches, because it missed events while it was closed.
        staleTime: 0,
        retry: (count, error) => count < RETRIES && mayPass(error),
      },
      mutations: { onError: signedOut },
    },
  });
}

/** Returns the query key of an operation. Without arguments, it matches all results of the operation. */
export const keyOf = (name: OperationName, ...rest: readonly unknown[]): QueryKey => [name, ...rest];

type QueryChoices<Name extends OperationName, Shown> = Omit<
  UseQueryOptions<AnswerOf<Name>, Error, Shown>,
  'queryKey' | 'queryFn'
>;

/** Reads an operation in the workspace of the page. The query key is `[operationId, arguments, workspace id]`. */
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
  /** Returns the arguments for the page at `cursor`, or for the first page. */
  readonly args: (cursor: string | undefined) => ArgumentsOf<Name>;
  readonly rowsOf: (page: AnswerOf<Name>) => readonly Row[];
  /**
   * Returns the cursor of the next page, `undefined` after the last. `known` is the number of rows up to the end of
   * `page`.
   */
  readonly nextOf: (page: AnswerOf<Name>, known: number) => string | undefined;
  readonly enabled?: boolean;
  readonly staleTime?: number;
  readonly refetchInterval?: number | false;
}

/** Reads all rows of a paginated operation: returns the first page immediately and adds the others as they arrive. */
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
 * Runs an operation that changes something, then refetches the `stale` operations. Errors are shown as a toast, unless
 * `silent` leaves that to the caller.
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
