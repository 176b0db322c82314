import { findPublic, findVisible, isMember } from '#core/agents/access.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Handlers } from '#core/http/route.ts';
import { fullNameOf, refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { lastDays } from '../usage/period.ts';
import { UsageStore } from '../usage/store.ts';
import { estimateOf, NO_HISTORY } from './estimate.ts';
import type { estimateRoutes } from './routes.ts';

const PERIOD_DAYS = 30;
/** Minimum number of runs: with fewer, an estimate would reveal the cost and duration of single runs. */
const MIN_SAMPLE = 20;

export const estimateHandlers = (
  deps: Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'ids'>,
): Handlers<typeof estimateRoutes> => ({
  async getCostEstimate({ caller, params, requestUuid }) {
    const version = caller === undefined ? await findPublic(deps, params) : await findVisible(deps, caller, params);
    const isInside = caller !== undefined && (await isMember(deps, caller, version.workspaceId));
    const { days } = lastDays(deps.clock.now(), PERIOD_DAYS + 1);
    // The difference of two answers on the same day would reveal the cost of the runs between them.
    const shown = isInside ? days.slice(1) : days.slice(0, -1);
    const rollups = await new UsageStore(deps, version.workspaceId).ofAgent(fullNameOf(version), shown);
    const estimate = estimateOf(rollups, PERIOD_DAYS);
    const { type, execution_engine, supported_providers } = version.definition;
    return {
      status: 200,
      body: {
        agent: refOf(version),
        type,
        execution_engine,
        supported_providers,
        estimate: isInside || estimate.sample_size >= MIN_SAMPLE ? estimate : NO_HISTORY,
        metadata: { request_id: requestIdOf(requestUuid) },
      },
    };
  },
});
