import { keyHandlers } from '#core/accounts/keys/handlers.ts';
import { secretHandlers } from '#core/accounts/secrets/handlers.ts';
import { serviceKeyHandlers } from '#core/accounts/service-keys/handlers.ts';
import { workspaceHandlers } from '#core/accounts/workspaces/handlers.ts';
import { findOwn } from '#core/agents/access.ts';
import { catalogHandlers } from '#core/agents/catalog/handlers.ts';
import { downloadHandlers } from '#core/agents/downloads/handlers.ts';
import { agentHandlers } from '#core/agents/handlers.ts';
import { uploadHandlers } from '#core/agents/uploads/handlers.ts';
import { alertHandlers } from '#core/automation/alerts/handlers.ts';
import { scheduleHandlers } from '#core/automation/schedules/handlers.ts';
import { scheduleTriggerHandlers } from '#core/automation/schedules/trigger.ts';
import { webhookDeliveryHandlers, webhookHandlers } from '#core/automation/webhooks/handlers.ts';
import { creditHandlers } from '#core/billing/credits/handlers.ts';
import { usageHandlers } from '#core/billing/usage/handlers.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { callHandlers } from '#core/running/calls/handlers.ts';
import { agentLogHandlers } from '#core/runs/agent-logs/handlers.ts';
import { runHandlers } from '#core/runs/handlers.ts';
import { messageHandlers } from '#core/workbench/messages/handlers.ts';
import { storageHandlers } from '#core/workbench/storage/handlers.ts';
import { taskHandlers } from '#core/workbench/tasks/handlers.ts';
import { agentListeners } from './listeners.ts';
import { metaHandlers } from './meta/handlers.ts';

/** Every handler of the route table, for a host that serves it whole. */
export const allHandlers = (deps: AllDeps) => ({
  ...metaHandlers(deps),
  ...keyHandlers(deps),
  ...workspaceHandlers(deps),
  ...secretHandlers(deps),
  ...taskHandlers(deps),
  ...messageHandlers(deps),
  ...storageHandlers(deps),
  ...usageHandlers(deps),
  ...creditHandlers(deps),
  ...catalogHandlers(deps),
  ...agentHandlers({ ...deps, listeners: agentListeners(deps) }),
  ...agentLogHandlers(deps),
  ...serviceKeyHandlers(deps, findOwn),
  ...downloadHandlers(deps),
  ...runHandlers(deps),
  ...scheduleHandlers(deps),
  ...alertHandlers(deps),
  ...webhookHandlers(deps),
  ...webhookDeliveryHandlers(deps),
  ...scheduleTriggerHandlers(deps),
  ...uploadHandlers(deps),
  ...callHandlers(deps),
});
