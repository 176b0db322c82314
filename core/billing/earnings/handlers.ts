import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { earningRoutes } from './routes.ts';
import { type EarningEntry, listEarnings, readEarningSums } from './store.ts';

const JSON_LIMIT = 50;
const CSV_LIMIT = 10_000;

export const earningHandlers = (deps: Pick<Deps, 'main' | 'clock'>): Handlers<typeof earningRoutes> => ({
  async getEarnings({ caller, query: { month = isoTime(deps.clock.now()).slice(0, 7), limit, offset, format } }) {
    const isCsv = format === 'csv';
    const page = { month, limit: limit ?? (isCsv ? CSV_LIMIT : JSON_LIMIT), offset };
    const entries = (await listEarnings(deps, caller.workspace.id, page)).map(view);
    if (isCsv) {
      const headers = { 'content-disposition': `attachment; filename="earnings-${month}.csv"` };
      return { status: 200, raw: { contentType: 'text/csv; charset=utf-8', content: csvOf(entries) }, headers };
    }
    const sums = await readEarningSums(deps, caller.workspace.id);
    return {
      status: 200,
      body: {
        currency: 'usd',
        total_cents: sums.reduce((total, { earnedCents }) => total + earnedCents, 0),
        by_month: sums.map(({ agentRef, priceCents, feeCents, earnedCents, ...rest }) => ({
          ...rest,
          agent: agentRef,
          price_cents: priceCents,
          fee_cents: feeCents,
          earned_cents: earnedCents,
        })),
        entries,
      },
    };
  },
});

const view = ({ runId, agentRef, priceCents, feeCents, earnedCents, createdAt }: EarningEntry) => ({
  run_id: runId,
  agent: agentRef,
  price_cents: priceCents,
  fee_cents: feeCents,
  earned_cents: earnedCents,
  created_at: createdAt,
});

const COLUMNS = ['created_at', 'run_id', 'agent', 'price_cents', 'fee_cents', 'earned_cents'] as const;

/** No value needs CSV quotes: all are slugs, ids, times and numbers. */
function csvOf(entries: readonly ReturnType<typeof view>[]): Uint8Array {
  const lines = entries.map((entry) => COLUMNS.map((column) => entry[column]).join(','));
  return new TextEncoder().encode([COLUMNS.join(','), ...lines, ''].join('\r\n'));
}
