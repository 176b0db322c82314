import { auditHandlers } from '#core/accounts/audit/handlers.ts';
import { clientRoutes } from '#core/accounts/clients/routes.ts';
import type { clientHandlers } from '#core/accounts/clients/server.ts';
import { connectionHandlers } from '#core/accounts/connections/handlers.ts';
import { documentUse } from '#core/accounts/documents/store.ts';
import { grantHandlers } from '#core/accounts/grants/handlers.ts';
import { keyHandlers } from '#core/accounts/keys/handlers.ts';
import { providerHandlers } from '#core/accounts/providers/handlers.ts';
import { resourceHandlers } from '#core/accounts/resources/handlers.ts';
import { secretHandlers } from '#core/accounts/secrets/handlers.ts';
import { serviceKeyHandlers } from '#core/accounts/service-keys/handlers.ts';
import { signInHandlers } from '#core/accounts/sign-in/handlers.ts';
import { oidcHandlers } from '#core/accounts/sign-in/oidc/handlers.ts';
import type { trustHandlers } from '#core/accounts/trusts/handlers.ts';
import { trustRoutes } from '#core/accounts/trusts/routes.ts';
import { workspaceHandlers } from '#core/accounts/workspaces/handlers.ts';
import { findOwn, findVisible } from '#core/agents/access.ts';
import { catalogHandlers } from '#core/agents/catalog/handlers.ts';
import type { channelHandlers } from '#core/agents/channels/handlers.ts';
import { channelRoutes } from '#core/agents/channels/routes.ts';
import { downloadHandlers } from '#core/agents/downloads/handlers.ts';
import { agentHandlers } from '#core/agents/handlers.ts';
import { agentUseReader } from '#core/agents/retention/storage-usage.ts';
import { uploadHandlers } from '#core/agents/uploads/handlers.ts';
import { alertHandlers } from '#core/automation/alerts/handlers.ts';
import type { evalHandlers } from '#core/automation/evals/handlers.ts';
import { evalRoutes } from '#core/automation/evals/routes.ts';
import { scheduleHandlers } from '#core/automation/schedules/handlers.ts';
import { scheduleUse } from '#core/automation/schedules/store.ts';
import { scheduleTriggerHandlers } from '#core/automation/schedules/trigger/handlers.ts';
import { webhookDeliveryHandlers } from '#core/automation/webhooks/delivery-handlers.ts';
import { webhookHandlers } from '#core/automation/webhooks/handlers.ts';
import { budgetHandlers } from '#core/billing/budgets/handlers.ts';
import { creditHandlers } from '#core/billing/credits/handlers.ts';
import { earningHandlers } from '#core/billing/earnings/handlers.ts';
import { estimateHandlers } from '#core/billing/estimates/handlers.ts';
import { operatorHandlers } from '#core/billing/operator/handlers.ts';
import { topUpHandlers } from '#core/billing/top-ups/handlers.ts';
import { usageHandlers } from '#core/billing/usage/handlers.ts';
import { memoryHandlers } from '#core/collaboration/memory/handlers.ts';
import { messageHandlers } from '#core/collaboration/messages/handlers.ts';
import { storageHandlers } from '#core/collaboration/storage/handlers.ts';
import { taskHandlers } from '#core/collaboration/tasks/handlers.ts';
import { eventHandlers } from '#core/events/handlers.ts';
import { overviewHandlers } from '#core/events/overview/handlers.ts';
import { callHandlers } from '#core/execution/calls/handlers.ts';
import { chatLinkHandlers } from '#core/execution/chat-links/handlers.ts';
import { chatHandlers } from '#core/execution/chat-links/visits/handlers.ts';
import type { sessionHandlers } from '#core/execution/sessions/handlers.ts';
import { sessionRoutes } from '#core/execution/sessions/routes.ts';
import { stepHandlers } from '#core/execution/steps/handlers.ts';
import { lazyHandlers } from '#core/http/lazy-handlers.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { agentLogHandlers } from '#core/runs/agent-logs/handlers.ts';
import { lastRunOf } from '#core/runs/agent-logs/store.ts';
import { approvalHandlers } from '#core/runs/approvals/handlers.ts';
import { approvalLinkHandlers } from '#core/runs/approvals/link-handlers.ts';
import { bulkHandlers } from '#core/runs/bulk/handlers.ts';
import { destinationHandlers } from '#core/runs/destinations/handlers.ts';
import { runHandlers } from '#core/runs/handlers.ts';
import type { scoreHandlers } from '#core/runs/scores/handlers.ts';
import { scoreRoutes } from '#core/runs/scores/routes.ts';
import { shareHandlers } from '#core/runs/shares/handlers.ts';
import { telemetryHandlers } from '#core/runs/telemetry/handlers.ts';
import type { channelCallsOf } from '#core/runs/usage/channel-calls.ts';
import { serviceHandlers } from '#core/services/handlers.ts';
import { instanceHandlers } from '#core/services/instances/handlers.ts';
import { loopCallHandlers } from '#core/services/loop-calls/handlers.ts';
import { serviceUse } from '#core/services/store.ts';
import { a2aHandlers } from '#core/wires/a2a/handlers.ts';
import { agUiHandlers } from '#core/wires/ag-ui/handlers.ts';
import { mcpHandlers } from '#core/wires/mcp/handlers.ts';
import { openAiCallHandlers } from '#core/wires/openai/calls/handlers.ts';
import { openAiRunHandlers } from '#core/wires/openai/handlers.ts';
import { openAiModelHandlers } from '#core/wires/openai/models/handlers.ts';
import { openAiResponseHandlers } from '#core/wires/openai/stream/handlers.ts';
import { agentDocumentHandlers } from './agent-document/handlers.ts';
import { agentListeners } from './agent-listeners.ts';
import { authenticate } from './auth.ts';
import { healthHandlers, metricsHandlers } from './health/handlers.ts';
import { secretListeners } from './listeners.ts';
import { metaHandlers } from './meta/handlers.ts';
import { operationsOf } from './operations.ts';
import type { routes } from './routes.ts';

/** Combined dependencies of several functions. */
type DepsOf<F extends (deps: never) => unknown> = (
  F extends (deps: infer D) => unknown
    ? (deps: D) => void
    : never
) extends (deps: infer All) => void
  ? All
  : never;

/*
 * The handlers of each deployed function under its name: `fn` of their rows in camel case. Each is a separate export,
 * so that the bundle of a function contains only its own handlers.
 */
export const meta = (deps: DepsOf<typeof metaHandlers | typeof metricsHandlers>) => ({
  ...metaHandlers(deps),
  ...metricsHandlers(deps),
});
export const a2a = (deps: Parameters<typeof a2aHandlers>[0]) =>
  a2aHandlers(deps, (headers, workspaceId, row, path) => authenticate(deps, headers, workspaceId, row, path));
export const agents = (
  deps: DepsOf<typeof agentLogHandlers | typeof agentListeners> &
    Omit<DepsOf<typeof agentHandlers>, 'listeners' | 'lastRunOf'> &
    Omit<Parameters<typeof channelHandlers>[0], 'listeners' | 'channelCallsOf'> &
    Parameters<typeof channelCallsOf>[0] &
    Parameters<typeof serviceKeyHandlers>[0],
) => ({
  ...agentHandlers({ ...deps, listeners: agentListeners(deps), lastRunOf: (agentId) => lastRunOf(deps, agentId) }),
  ...lazyHandlers(channelRoutes, async () => {
    const { channelHandlers } = await import('#core/agents/channels/handlers.ts');
    const { channelCallsOf } = await import('#core/runs/usage/channel-calls.ts');
    return channelHandlers({
      ...deps,
      listeners: agentListeners(deps),
      channelCallsOf: (agent, channel) => channelCallsOf(deps, agent, channel),
    });
  }),
  ...agentLogHandlers(deps),
  ...serviceKeyHandlers(deps, findOwn),
  ...grantHandlers(deps, findVisible),
  ...openAiModelHandlers(deps),
});
export const billing = (
  deps: DepsOf<typeof creditHandlers | typeof topUpHandlers | typeof budgetHandlers | typeof operatorHandlers>,
) => ({
  ...creditHandlers(deps),
  ...topUpHandlers(deps),
  ...earningHandlers(deps),
  ...budgetHandlers(deps),
  ...operatorHandlers(deps),
});
export const calls = (
  deps: DepsOf<
    typeof callHandlers | typeof loopCallHandlers | typeof scheduleTriggerHandlers | typeof webhookDeliveryHandlers
  >,
) => ({
  ...callHandlers(deps),
  ...agUiHandlers(deps, (headers, workspaceId, row) => authenticate(deps, headers, workspaceId, row)),
  ...chatHandlers(deps),
  ...stepHandlers(deps),
  ...loopCallHandlers(deps),
  ...scheduleTriggerHandlers(deps),
  ...webhookDeliveryHandlers(deps),
  ...openAiCallHandlers(deps),
});
export const catalog = (
  deps: DepsOf<typeof catalogHandlers | typeof agentDocumentHandlers | typeof healthHandlers>,
) => ({
  ...catalogHandlers(deps),
  ...agentDocumentHandlers(deps),
  ...healthHandlers(deps),
});
export const downloads = downloadHandlers;
export const events = (deps: Parameters<typeof eventHandlers>[0]) => {
  const access: Parameters<typeof eventHandlers>[1] = (headers, workspaceId, row) =>
    authenticate(deps, headers, workspaceId, row);
  return { ...eventHandlers(deps, access), ...openAiResponseHandlers(deps, access) };
};
export const keys = (
  deps: DepsOf<
    typeof keyHandlers | typeof signInHandlers | typeof oidcHandlers | typeof clientHandlers | typeof trustHandlers
  >,
) => ({
  ...keyHandlers(deps),
  ...signInHandlers(deps),
  ...oidcHandlers(deps),
  ...lazyHandlers(clientRoutes, async () => (await import('#core/accounts/clients/server.ts')).clientHandlers(deps)),
  ...lazyHandlers(trustRoutes, async () => (await import('#core/accounts/trusts/handlers.ts')).trustHandlers(deps)),
});
export const mcp = (deps: Parameters<typeof mcpHandlers>[0] & Parameters<typeof operationsOf>[0]) =>
  mcpHandlers(deps, operationsOf(deps));
export const runs = (
  deps: DepsOf<
    | typeof runHandlers
    | typeof approvalHandlers
    | typeof approvalLinkHandlers
    | typeof scoreHandlers
    | typeof shareHandlers
    | typeof bulkHandlers
    | typeof evalHandlers
    | typeof overviewHandlers
    | typeof sessionHandlers
    | typeof openAiRunHandlers
  >,
) => ({
  ...runHandlers(deps),
  ...approvalHandlers(deps),
  ...approvalLinkHandlers(deps),
  ...lazyHandlers(scoreRoutes, async () => (await import('#core/runs/scores/handlers.ts')).scoreHandlers(deps)),
  ...shareHandlers(deps),
  ...bulkHandlers(deps),
  ...lazyHandlers(evalRoutes, async () => (await import('#core/automation/evals/handlers.ts')).evalHandlers(deps)),
  ...overviewHandlers(deps),
  ...lazyHandlers(sessionRoutes, async () =>
    (await import('#core/execution/sessions/handlers.ts')).sessionHandlers(deps),
  ),
  ...openAiRunHandlers(deps),
});
export const schedules = (
  deps: DepsOf<
    | typeof scheduleHandlers
    | typeof alertHandlers
    | typeof webhookHandlers
    | typeof destinationHandlers
    | typeof chatLinkHandlers
  >,
) => ({
  ...scheduleHandlers(deps),
  ...chatLinkHandlers(deps),
  ...destinationHandlers(deps),
  ...alertHandlers(deps),
  ...webhookHandlers(deps),
});
export const secrets = (
  deps: Parameters<typeof secretHandlers>[0] &
    DepsOf<typeof secretListeners | typeof providerHandlers | typeof connectionHandlers | typeof telemetryHandlers>,
) => ({
  ...secretHandlers(deps, secretListeners(deps)),
  ...connectionHandlers(deps),
  ...providerHandlers(deps),
  ...telemetryHandlers(deps),
});
export const services = serviceHandlers;
export const serviceInstances = instanceHandlers;
export const storage = (deps: DepsOf<typeof storageHandlers | typeof memoryHandlers>) => ({
  ...storageHandlers(deps),
  ...memoryHandlers(deps),
});
export const tasks = (deps: DepsOf<typeof taskHandlers | typeof messageHandlers>) => ({
  ...taskHandlers(deps),
  ...messageHandlers(deps),
});
export const uploads = uploadHandlers;
export const usage = (deps: DepsOf<typeof usageHandlers | typeof estimateHandlers>) => ({
  ...usageHandlers(deps),
  ...estimateHandlers(deps),
});
export const workspaces = (deps: DepsOf<typeof workspaceHandlers> & Parameters<typeof resourceHandlers>[0]) => ({
  ...workspaceHandlers(deps),
  ...auditHandlers(deps),
  ...resourceHandlers(deps, [agentUseReader(deps), scheduleUse(deps), serviceUse(deps), documentUse(deps)]),
});

/** All handlers of the route table, for a host that serves every route. */
export const allHandlers = (deps: AllDeps): Handlers<typeof routes> => ({
  ...meta(deps),
  ...a2a(deps),
  ...agents(deps),
  ...billing(deps),
  ...calls(deps),
  ...catalog(deps),
  ...downloads(deps),
  ...events(deps),
  ...keys(deps),
  ...mcp(deps),
  ...runs(deps),
  ...schedules(deps),
  ...secrets(deps),
  ...services(deps),
  ...serviceInstances(deps),
  ...storage(deps),
  ...tasks(deps),
  ...uploads(deps),
  ...usage(deps),
  ...workspaces(deps),
});
