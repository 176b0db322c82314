import { PlatformError } from '#core/base/errors.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '../store.ts';
import { traceEventPage } from '../trace/event-page.ts';
import { stepsOfRun } from '../trace/waterfall.ts';
import { runSummaryOf } from '../view.ts';
import type { shareRoutes } from './routes.ts';
import { createShare, findShared, listShares, revokeShare, type Share } from './store.ts';

type ShareDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'ids' | 'config'>;
type ShareHandlers = Handlers<typeof shareRoutes>;
type LinkRequest = Pick<
  Incoming<Extract<(typeof shareRoutes)[number], { auth: 'public' }>>,
  'params' | 'responseHeaders'
>;
type OpenOperation = 'getSharedRun' | 'listSharedRunSteps' | 'listSharedRunEvents';

/** Headers of every answer to a link: it is neither kept by caches nor found by search engines, and not passed on. */
const LINK_HEADERS = { 'cache-control': 'no-store', 'x-robots-tag': 'noindex', 'referrer-policy': 'no-referrer' };

export const shareHandlers = (deps: ShareDeps): ShareHandlers => ({ ...ownHandlers(deps), ...openHandlers(deps) });

function ownHandlers(deps: ShareDeps): Omit<ShareHandlers, OpenOperation> {
  const find = (workspaceId: string, name: string) => new RunStore(deps, workspaceId).findByName(name);
  return {
    async createRunShare({ caller, params, body }) {
      const run = await find(caller.workspace.id, params.run_id);
      const { share, token } = await createShare(deps, run, {
        days: body.expires_in_days,
        createdBy: caller.userId,
      });
      const { baseUrl = '', dashboardUrl } = deps.config;
      // Without a dashboard, the link leads to the API.
      const page = dashboardUrl === undefined ? `${baseUrl}/public/shares` : `${dashboardUrl}/share`;
      return { status: 201, body: { ...shareView(share), url: `${page}/${token}` } };
    },

    async listRunShares({ caller, params }) {
      const run = await find(caller.workspace.id, params.run_id);
      return { status: 200, body: { shares: (await listShares(deps, run)).map(shareView) } };
    },

    async revokeRunShare({ caller, params: { run_id, share_id: id } }) {
      const run = await find(caller.workspace.id, run_id);
      if (await revokeShare(deps, run, id)) return { status: 200, body: { deleted: true, id } };
      throw new PlatformError('NOT_FOUND', `The run ${run.id} has no valid link "${id.slice(0, 64)}".`);
    },
  };
}

/** The token in the path is the only credential. What the row does not declare, such as costs, is not shown. */
function openHandlers(deps: ShareDeps): Pick<ShareHandlers, OpenOperation> {
  /** Throws NOT_FOUND, in the same words whatever the reason. */
  async function open({ params, responseHeaders }: LinkRequest) {
    Object.assign(responseHeaders, LINK_HEADERS);
    const shared = await findShared(deps, params.share);
    if (shared !== undefined) {
      const runs = new RunStore(deps, shared.workspaceId);
      const run = await runs.find(shared.runId);
      if (run !== undefined) return { runs, run, expiresAt: shared.expiresAt };
    }
    throw new PlatformError('NOT_FOUND', 'This link does not exist or has expired.');
  }

  return {
    async getSharedRun(incoming) {
      const { runs, run, expiresAt } = await open(incoming);
      const body = await runs.body(run.id);
      return {
        status: 200,
        body: {
          run: {
            ...runSummaryOf(run),
            completed_at: run.completedAt,
            error_code: run.errorCode,
            input_tokens: run.inputTokens,
            output_tokens: run.outputTokens,
            llm_provider: run.llmProvider,
            llm_model: run.llmModel,
            input_data: body?.input ?? null,
            output_data: body?.output ?? null,
          },
          expires_at: expiresAt,
        },
      };
    },

    async listSharedRunSteps(incoming) {
      const { runs, run } = await open(incoming);
      const { steps, hasContent } = await stepsOfRun(deps, runs, run);
      return { status: 200, body: { has_content: hasContent, steps: steps.map(withoutIds) } };
    },

    async listSharedRunEvents(incoming) {
      const { runs, run } = await open(incoming);
      const { limit, cursor } = incoming.query;
      const page = await traceEventPage(runs, run, { limit, offset: 0, cursor, content: true });
      return { status: 200, body: { ...page, events: page.events.map(withoutIds) } };
    },
  };
}

/** Sub-calls name the runs that they started, and approvals who decided, which the link does not show. */
function withoutIds<Step extends { readonly payload: object }>(step: Step) {
  const { run_id: _run, by: _by, ...payload } = step.payload as { readonly [member: string]: unknown };
  return { ...step, payload };
}

const shareView = ({ id, runId, createdBy, createdAt, expiresAt }: Share) => ({
  id,
  run_id: runId,
  created_by: createdBy,
  created_at: createdAt,
  expires_at: expiresAt,
});
