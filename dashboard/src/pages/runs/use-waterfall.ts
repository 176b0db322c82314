import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import type { WaterfallRun } from './lines.ts';

/** Maximum number of steps per page. */
const PAGE = 4_000;
const POLL_MS = 5_000;

/** Reads all runs of a run's chain and the time of the request. */
export const useWaterfall = (params: { readonly workspace_id: string; readonly run_id: string }, isRunning: boolean) =>
  useQuery({
    queryKey: keyOf('getRunWaterfall', params),
    queryFn: async ({ signal }) => {
      const runs: WaterfallRun[] = [];
      for (let cursor: string | null = '0'; cursor !== null; ) {
        const query: { limit: number; cursor: string } = { limit: PAGE, cursor };
        const page = await call('getRunWaterfall', { params, query }, { signal });
        runs.push(...page.runs);
        cursor = page.next_cursor;
      }
      return { runs, at: Date.now() };
    },
    refetchInterval: isRunning ? POLL_MS : false,
  });
