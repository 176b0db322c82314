import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import type { WaterfallRun } from './lines.ts';

/** Steps on a page of the answer: the most that there can be. */
const PAGE = 4_000;
const POLL_MS = 5_000;

/** All runs of the chain that a run is a part of, and when they were asked for. */
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
