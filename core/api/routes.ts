import { auditRoutes } from '#core/accounts/audit/routes.ts';
import { clientRoutes } from '#core/accounts/clients/routes.ts';
import { connectionRoutes } from '#core/accounts/connections/routes.ts';
import { grantRoutes } from '#core/accounts/grants/routes.ts';
import { keyRoutes } from '#core/accounts/keys/routes.ts';
import { providerRoutes } from '#core/accounts/providers/routes.ts';
import { resourceRoutes } from '#core/accounts/resources/routes.ts';
import { secretRoutes } from '#core/accounts/secrets/routes.ts';
import { serviceKeyRoutes } from '#core/accounts/service-keys/routes.ts';
import { signInRoutes } from '#core/accounts/sign-in/routes.ts';
import { trustRoutes } from '#core/accounts/trusts/routes.ts';
import { workspaceRoutes } from '#core/accounts/workspaces/routes.ts';
import { catalogRoutes } from '#core/agents/catalog/routes.ts';
import { channelRoutes } from '#core/agents/channels/routes.ts';
import { downloadRoutes } from '#core/agents/downloads/routes.ts';
import { agentRoutes } from '#core/agents/routes.ts';
import { uploadRoutes } from '#core/agents/uploads/routes.ts';
import { alertRoutes } from '#core/automation/alerts/routes.ts';
import { evalRoutes } from '#core/automation/evals/routes.ts';
import { scheduleRoutes } from '#core/automation/schedules/routes.ts';
import { scheduleTriggerRoutes } from '#core/automation/schedules/trigger/routes.ts';
import { webhookDeliveryRoutes, webhookRoutes } from '#core/automation/webhooks/routes.ts';
import { budgetRoutes } from '#core/billing/budgets/routes.ts';
import { creditRoutes } from '#core/billing/credits/routes.ts';
import { earningRoutes } from '#core/billing/earnings/routes.ts';
import { estimateRoutes } from '#core/billing/estimates/routes.ts';
import { operatorRoutes } from '#core/billing/operator/routes.ts';
import { topUpRoutes } from '#core/billing/top-ups/routes.ts';
import { usageRoutes } from '#core/billing/usage/routes.ts';
import { memoryRoutes } from '#core/collaboration/memory/routes.ts';
import { messageRoutes } from '#core/collaboration/messages/routes.ts';
import { storageRoutes } from '#core/collaboration/storage/routes.ts';
import { taskRoutes } from '#core/collaboration/tasks/routes.ts';
import { overviewRoutes } from '#core/events/overview/routes.ts';
import { eventRoutes } from '#core/events/routes.ts';
import { callRoutes } from '#core/execution/calls/routes.ts';
import { chatLinkRoutes } from '#core/execution/chat-links/routes.ts';
import { chatRoutes } from '#core/execution/chat-links/visits/routes.ts';
import { sessionMessageRoutes } from '#core/execution/sessions/messages/routes.ts';
import { sessionRoutes } from '#core/execution/sessions/routes.ts';
import { stepRoutes } from '#core/execution/steps/routes.ts';
import type { Route } from '#core/http/route.ts';
import { agentLogRoutes } from '#core/runs/agent-logs/routes.ts';
import { approvalLinkRoutes, approvalRoutes } from '#core/runs/approvals/routes.ts';
import { bulkRoutes } from '#core/runs/bulk/routes.ts';
import { destinationRoutes } from '#core/runs/destinations/routes.ts';
import { runRoutes } from '#core/runs/routes.ts';
import { scoreRoutes } from '#core/runs/scores/routes.ts';
import { shareRoutes } from '#core/runs/shares/routes.ts';
import { telemetryRoutes } from '#core/runs/telemetry/routes.ts';
import { instanceRoutes } from '#core/services/instances/routes.ts';
import { loopCallRoutes } from '#core/services/loop-calls/routes.ts';
import { serviceRoutes } from '#core/services/routes.ts';
import { a2aRoutes } from '#core/wires/a2a/routes.ts';
import { agUiRoutes } from '#core/wires/ag-ui/routes.ts';
import { mcpRoutes } from '#core/wires/mcp/routes.ts';
import { openAiCallRoutes } from '#core/wires/openai/calls/routes.ts';
import { openAiModelRoutes } from '#core/wires/openai/models/routes.ts';
import { openAiRunRoutes } from '#core/wires/openai/routes.ts';
import { openAiResponseRoutes } from '#core/wires/openai/stream/routes.ts';
import { agentDocumentRoutes } from './agent-document/routes.ts';
import { healthRoutes, metricsRoutes } from './health/routes.ts';
import { metaRoutes } from './meta/routes.ts';

/** The route table. Fixed paths precede the four-segment wildcard of agent calls. */
export const routes = [
  ...metaRoutes,
  ...healthRoutes,
  ...metricsRoutes,
  ...keyRoutes,
  ...signInRoutes,
  ...clientRoutes,
  ...trustRoutes,
  ...workspaceRoutes,
  ...auditRoutes,
  ...resourceRoutes,
  ...secretRoutes,
  ...connectionRoutes,
  ...providerRoutes,
  ...grantRoutes,
  ...taskRoutes,
  ...messageRoutes,
  ...storageRoutes,
  ...memoryRoutes,
  ...usageRoutes,
  ...creditRoutes,
  ...topUpRoutes,
  ...earningRoutes,
  ...estimateRoutes,
  ...budgetRoutes,
  ...operatorRoutes,
  ...catalogRoutes,
  ...agentDocumentRoutes,
  ...agentRoutes,
  ...channelRoutes,
  ...agentLogRoutes,
  ...serviceKeyRoutes,
  ...downloadRoutes,
  ...runRoutes,
  ...sessionRoutes,
  ...sessionMessageRoutes,
  ...stepRoutes,
  ...approvalRoutes,
  ...approvalLinkRoutes,
  ...scoreRoutes,
  ...evalRoutes,
  ...shareRoutes,
  ...destinationRoutes,
  ...telemetryRoutes,
  ...eventRoutes,
  ...overviewRoutes,
  ...bulkRoutes,
  ...scheduleRoutes,
  ...alertRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...scheduleTriggerRoutes,
  ...serviceRoutes,
  ...instanceRoutes,
  ...loopCallRoutes,
  ...uploadRoutes,
  ...openAiModelRoutes,
  ...openAiCallRoutes,
  ...openAiResponseRoutes,
  ...openAiRunRoutes,
  ...agUiRoutes,
  ...a2aRoutes,
  ...mcpRoutes,
  ...chatLinkRoutes,
  ...chatRoutes,
  ...callRoutes,
] as const satisfies readonly Route[];
