import { useAllRows } from './query.ts';

const PAGE = 100;

/** Latest version of each agent of the workspace, most recently published first. */
export const useAgents = (choices: { readonly enabled?: boolean; readonly staleTime?: number } = {}) =>
  useAllRows('listAgents', {
    args: (cursor) => ({ query: { latest: 'true', limit: PAGE, cursor } }),
    rowsOf: (agents) => agents,
    nextOf: (agents) => agents.at(-1)?.next_cursor ?? undefined,
    ...choices,
  });
