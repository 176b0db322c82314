import {
  QueryCache,
  QueryClient,
  type QueryKey,
  type UseQueryOptions,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
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
