import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type AnswerOf, call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { EMPTY_LOG, type Log, PAGE, sinceOf, withFound } from './service-log.ts';

export type Severity = AnswerOf<'listServiceLogs'>['logs'][number]['severity'];

const EVERY_MS = 2_000;

/** Follows the log of a service at a minimum severity while the page is visible. */
export function useServiceLog(serviceId: string, severity: Severity | undefined, isPaused: boolean) {
  const { id: workspace_id } = useWorkspace();
  const client = useQueryClient();
  const params = { workspace_id, service_id: serviceId };
  const queryKey = keyOf('listServiceLogs', params, severity ?? '');
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const log = client.getQueryData<Log>(queryKey) ?? EMPTY_LOG;
      const query = { limit: PAGE, severity, since: sinceOf(log) };
      const { logs } = await call('listServiceLogs', { params, query }, { signal });
      return withFound(log, logs);
    },
    enabled: !isPaused,
    staleTime: 0,
    refetchInterval: EVERY_MS,
    structuralSharing: false,
  });
}
