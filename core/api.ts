import { agentRoutes, catalogRoutes, downloadRoutes } from './agents/routes.ts';
import { alertRoutes } from './alerts/routes.ts';
import { billingRoutes } from './billing/routes.ts';
import { callRoutes } from './calls/routes.ts';
import type { Route } from './http/route.ts';
import { keyRoutes } from './keys/routes.ts';
import { messageRoutes } from './messages/routes.ts';
import { metaRoutes } from './meta/routes.ts';
import { serviceKeyRoutes } from './orchestration/routes.ts';
import { runRoutes } from './runs/routes.ts';
import { scheduleRoutes, scheduleTriggerRoutes } from './schedules/routes.ts';
import { secretRoutes } from './secrets/routes.ts';
import { storageRoutes } from './storage/routes.ts';
import { taskRoutes } from './tasks/routes.ts';
import { uploadRoutes } from './uploads/routes.ts';
import { usageRoutes } from './usage/routes.ts';
import { webhookDeliveryRoutes, webhookRoutes } from './webhooks/routes.ts';
import { workspaceRoutes } from './workspaces/routes.ts';

/** THE route table. Fixed paths stand before the four-segment wildcard of agent calls. */
export const routes = [
  ...metaRoutes,
  ...keyRoutes,
  ...workspaceRoutes,
  ...secretRoutes,
  ...taskRoutes,
  ...messageRoutes,
  ...storageRoutes,
  ...usageRoutes,
  ...billingRoutes,
  ...catalogRoutes,
  ...agentRoutes,
  ...serviceKeyRoutes,
  ...downloadRoutes,
  ...runRoutes,
  ...scheduleRoutes,
  ...alertRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...scheduleTriggerRoutes,
  ...uploadRoutes,
  ...callRoutes,
] as const satisfies readonly Route[];

/** First path segments that can never be an org: of this table, and those that clients know (`contract.md` 0.4). */
const FURTHER_RESERVED = [
  ...['tasks', 'messages', 'usage', 'author-usage', 'billing', 'storage', 'environments', 'github', 'auth'],
  ...['security', 'llm-keys', 'integrations', 'mcp', 'dashboard'],
];

export function isReservedSlug(slug: string): boolean {
  const own = routes.map((route) => route.path.split('/')[1]!).filter((segment) => !segment.startsWith('{'));
  return new Set([...own, ...FURTHER_RESERVED]).has(slug) || /^v\d+$/.test(slug);
}
