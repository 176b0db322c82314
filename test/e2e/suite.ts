import { describe } from 'vitest';
import type { Target } from '#test/helpers/platform.ts';
import { agentsSuite } from './agents.ts';
import { alertsSuite } from './alerts.ts';
import { callsSuite, type Languages } from './calls.ts';
import { creditsSuite } from './credits.ts';
import { filesSuite } from './files.ts';
import { gatewaysSuite } from './gateways.ts';
import { grantsSuite } from './grants.ts';
import { idempotencySuite } from './idempotency.ts';
import { identitySuite } from './identity.ts';
import { installsSuite } from './installs.ts';
import { limitsSuite } from './limits.ts';
import { loopsSuite } from './loops.ts';
import { mcpServersSuite } from './mcp-servers.ts';
import { messagesSuite } from './messages.ts';
import { orchestrationSuite } from './orchestration.ts';
import { resourcesSuite } from './resources.ts';
import { runsSuite } from './runs.ts';
import { scheduleLifeSuite } from './schedule-life.ts';
import { schedulesSuite } from './schedules.ts';
import { secretsSuite } from './secrets.ts';
import { servicesSuite } from './services.ts';
import { skillsSuite } from './skills.ts';
import { storageSuite } from './storage.ts';
import { streamingSuite } from './streaming.ts';
import { tasksSuite } from './tasks.ts';
import { topUpsSuite } from './top-ups.ts';
import { uploadsSuite } from './uploads.ts';
import { usageSuite } from './usage.ts';
import { webhooksSuite } from './webhooks.ts';
import { workspacesSuite } from './workspaces.ts';

/**
 * The platform as its users see it, over HTTP only: every host must pass. `has` says which interpreters the sandbox has;
 * tests that need a missing one are skipped by name. The target's workspace must be called `acme`.
 */
export function platformSuite(target: () => Target, has: Languages): void {
  identitySuite(target);
  workspacesSuite(target);
  secretsSuite(target);
  tasksSuite(target);
  messagesSuite(target);
  storageSuite(target);
  agentsSuite(target);
  callsSuite(target, has);
  installsSuite(target, has);
  orchestrationSuite(target, has.python);
  grantsSuite(target, has.python);
  skillsSuite(target, has.python);
  streamingSuite(target, has.python || has.node);
  describe('tool loops', () => loopsSuite(target, has));
  mcpServersSuite(target, has);
  describe('gateways', () => gatewaysSuite(target));
  runsSuite(target, has.python || has.node);
  schedulesSuite(target);
  scheduleLifeSuite(target);
  idempotencySuite(target);
  uploadsSuite(target, has.python);
  filesSuite(target, has.node);
  usageSuite(target);
  limitsSuite(target);
  resourcesSuite(target);
  creditsSuite(target);
  topUpsSuite(target);
  webhooksSuite(target);
  alertsSuite(target);
  servicesSuite(target);
}
