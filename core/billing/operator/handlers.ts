import { audited } from '#core/accounts/audit/log.ts';
import { checkOperator } from '#core/accounts/operator.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Handlers } from '#core/http/route.ts';
import { rowOf } from '#core/http/route.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { balanceView } from '../credits/balance-view.ts';
import { balanceOf, grantCredits } from '../credits/ledger.ts';
import { ADDED, findNamed, setPlan } from './operate.ts';
import { operatorRoutes } from './routes.ts';

type OperatorDeps = Pick<AllDeps, 'main' | 'runs' | 'clock' | 'ids' | 'config' | 'log' | 'operatorKey'>;

export function operatorHandlers(deps: OperatorDeps): Handlers<typeof operatorRoutes> {
  const view = async (workspace: Workspace) => ({
    id: workspace.id,
    slug: workspace.slug,
    name: workspace.name,
    type: workspace.type,
    plan: workspace.plan ?? deps.config.defaultPlan,
    created_at: workspace.createdAt,
    ...balanceView(await balanceOf(deps, workspace.id)),
  });
  return {
    async getOperatorWorkspace({ params, request }) {
      await checkOperator(deps, request);
      return { status: 200, body: await view(await findNamed(deps, params.workspace)) };
    },

    async putOperatorPlan(incoming) {
      const { params, request, body } = incoming;
      await checkOperator(deps, request);
      const workspace = await findNamed(deps, params.workspace);
      const subject = {
        workspaceId: workspace.id,
        operation: 'putOperatorPlan',
        audit: rowOf(operatorRoutes, 'putOperatorPlan').audit,
      };
      return audited(deps, subject, incoming, async () => {
        const changed = (await setPlan(deps, workspace.id, body.plan)) ?? workspace;
        deps.log.info('the operator gave a plan', { workspace_id: workspace.id, plan: body.plan });
        return { status: 200 as const, body: await view(changed) };
      });
    },

    async giveOperatorCredits(incoming) {
      const { params, request, body } = incoming;
      const { id, amount_cents: cents, note = ADDED } = body;
      await checkOperator(deps, request);
      const workspace = await findNamed(deps, params.workspace);
      const subject = {
        workspaceId: workspace.id,
        operation: 'giveOperatorCredits',
        audit: rowOf(operatorRoutes, 'giveOperatorCredits').audit,
      };
      return audited(deps, subject, incoming, async () => {
        const { isNew } = await grantCredits(deps, workspace.id, { id, cents, description: note });
        if (isNew) deps.log.info('the operator gave credits', { workspace_id: workspace.id, grant_id: id, cents });
        return { status: isNew ? 201 : 200, body: await view(workspace) };
      });
    },
  };
}
