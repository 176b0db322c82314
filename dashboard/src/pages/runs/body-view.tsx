import { useQuery } from '@tanstack/react-query';
import { addressOf } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { ApiError } from '../../api-error.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { CutText, JsonView, SHOWN } from '../../ui/text/viewer.tsx';
import type { BodyAnswer, BodyQuestion } from './body-worker.ts';
import type { RunParams } from './run-params.ts';

type Member = BodyQuestion['member'];
type Body = Exclude<BodyAnswer, { readonly status: number }>;

/**
 * Input, output or complete record of a run, whatever its size. It reloads when `state`, the status of the run,
 * changes.
 */
export function BodyView({
  params,
  member,
  state,
}: {
  readonly params: RunParams;
  readonly member?: Member;
  readonly state: string;
}) {
  const { data, error, refetch } = useBody(params, member, state);
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  const name = `${params.run_id}${member === undefined ? '' : `-${member.replace('_data', '')}`}`;
  if ('file' in data) return <CutText head={data.head} whole={data.file} name={`${name}.json`} />;
  return <JsonView value={data.value} name={name} />;
}

function readBody(url: string, member: Member, signal: AbortSignal): Promise<Body> {
  const worker = new Worker(new URL('./body-worker.ts', import.meta.url), { type: 'module' });
  const { promise, resolve, reject } = Promise.withResolvers<Body>();
  signal.addEventListener('abort', () => reject(signal.reason));
  worker.onerror = () => reject(new ApiError(0));
  worker.onmessage = ({ data }: MessageEvent<BodyAnswer>) =>
    'status' in data ? reject(new ApiError(data.status, data.error)) : resolve(data);
  worker.postMessage({ url, member, max: SHOWN } satisfies BodyQuestion);
  return promise.finally(() => worker.terminate());
}

/** Reads input, output or complete record of a run in a worker. */
export const useBody = (params: RunParams, member: Member, state: string) =>
  useQuery({
    queryKey: keyOf('getRun', params, member ?? 'all', state),
    queryFn: ({ signal }) => readBody(addressOf('getRun', { params: { ...params } }), member, signal),
    staleTime: Number.POSITIVE_INFINITY,
    // Files of tens of megabytes are not cached.
    gcTime: 0,
  });
