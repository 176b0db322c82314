import { catalogHandlers } from './agents/catalog-handlers.ts';
import { downloadHandlers } from './agents/download-handlers.ts';
import { agentHandlers } from './agents/handlers.ts';
import { alertHandlers } from './alerts/handlers.ts';
import { billingHandlers } from './billing/handlers.ts';
import { callHandlers } from './calls/handlers.ts';
import type { AllDeps } from './deps.ts';
import { keyHandlers } from './keys/handlers.ts';
import { messageHandlers } from './messages/handlers.ts';
import { metaHandlers } from './meta/handlers.ts';
import { serviceKeyHandlers } from './orchestration/handlers.ts';
import { runHandlers } from './runs/handlers.ts';
import { scheduleHandlers } from './schedules/handlers.ts';
import { scheduleTriggerHandlers } from './schedules/trigger.ts';
import { secretHandlers } from './secrets/handlers.ts';
import { storageHandlers } from './storage/handlers.ts';
import { taskHandlers } from './tasks/handlers.ts';
import { uploadHandlers } from './uploads/handlers.ts';
import { usageHandlers } from './usage/handlers.ts';
import { webhookDeliveryHandlers, webhookHandlers } from './webhooks/handlers.ts';
import { workspaceHandlers } from './workspaces/handlers.ts';

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
  ...billingHandlers(deps),
  ...catalogHandlers(deps),
  ...agentHandlers(deps),
  ...serviceKeyHandlers(deps),
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
