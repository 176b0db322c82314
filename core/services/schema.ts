import * as z from 'zod';
import { requestTime } from '#core/http/request-time.ts';
import { LOG_SEVERITIES, LOG_SOURCES } from '#core/ports/service-host.ts';
import { SERVICE_STATES } from './service.ts';

const time = z.iso.datetime();
const count = z.coerce.number().int();
const health = z.enum(['healthy', 'degraded', 'unhealthy', 'unknown']);
const state = z.enum(SERVICE_STATES);
const variables = z.record(z.string(), z.string());

export const serviceEvent = z.object({
  id: z.uuid(),
  event_type: z.string(),
  message: z.string(),
  created_at: time,
});

/** A service. Some members have two names, to support clients of either. */
export const serviceView = z.object({
  id: z.uuid(),
  workspace_id: z.uuid(),
  agent_id: z.uuid().describe('ID of the agent version that the service runs.'),
  agent_name: z.string(),
  agent_version: z.string(),
  service_name: z.string(),
  name: z.string().describe('The same as `service_name`.'),
  desired_state: z.enum(['running', 'stopped']),
  current_state: state,
  state: state.describe('The same as `current_state`.'),
  health_status: health.describe('Whether at least `min_instances`, some or none of the instances are ready.'),
  health: health.describe('The same as `health_status`.'),
  service_url: z.string().nullable().describe('Public URL; `null` until the host has assigned it.'),
  service_tier: z.enum(['standard', 'performance']),
  service_tier_label: z.string(),
  min_instances: z.int(),
  max_instances: z.int(),
  overlap: z.boolean().describe('Whether old instances keep serving until new ones are ready.'),
  command: z.string().nullable(),
  args: z.array(z.string()).nullable(),
  restart_count: z.int().describe('Number of restarts, after crashes and on request.'),
  consecutive_restart_failures: z.int(),
  max_restart_failures: z.int(),
  auto_paused_at: time.nullable().describe('When a crash loop or a budget paused the service. null: never.'),
  last_restart_at: time.nullable(),
  last_deployed_at: time.nullable(),
  deployed_at: time.nullable().describe('The same as `last_deployed_at`.'),
  last_error: z.string().nullable(),
  alert_webhook_url: z.string().nullable(),
  auto_update: z.boolean().describe('Whether the service follows new versions of its agent, or its channel.'),
  channel: z.string().optional().describe('Channel of the agent that it follows. Absent: none.'),
  env_json: variables,
  env: variables.describe('The same as `env_json`.'),
  secret_names: z.array(z.string()).describe('Names of the required secrets: those of the agent and additional ones.'),
  created_at: time,
  updated_at: time,
});

/** The record of a service is one item, together with its instances and environment. */
const MAX_ARGS_BYTES = 64 * 1024;

const env = variables.describe('Plain environment variables, visible to all members. Replaces the current variables.');
const secretNames = z
  .array(z.string())
  .max(100)
  .describe('Names of additional secrets, besides those of the agent. Replaces the current list.');
const instances = z.int().min(1).max(1_000);
const command = z
  .string()
  .min(1)
  .max(10_000)
  .describe("Shell command, or a program if `args` is set. Default: the agent's own command.");
const args = z
  .array(z.string().max(10_000))
  .max(100)
  .refine((words) => Buffer.byteLength(words.join('')) <= MAX_ARGS_BYTES, 'must have at most 64 KB together')
  .describe('Arguments of `command`, at most 64 KB in total.');
const name = z
  .string()
  .max(63)
  .regex(/^[A-Za-z0-9](?:[\w .-]*[A-Za-z0-9])?$/, 'must be letters, digits, spaces and ". _ -" between them');
const maxFailures = z
  .int()
  .min(1)
  .max(50)
  .describe('Failed restarts in a row before the service is paused. Default: 5.');
const alertUrl = z
  .string()
  .max(2048)
  .describe('Public https:// URL to notify of crash loops; an empty string disables alerts.');
const overlap = z
  .boolean()
  .describe(
    'Whether old and new instances may run at the same time. If `false`, old ones stop before new ones start. Default: `true`.',
  );

/** `null` is equivalent to omitting the member. */
export const newService = z.object({
  agent_id: z.string().nullish().describe('ID of an agent version.'),
  agent: z
    .string()
    .nullish()
    .describe('`org/agent`, `org/agent@v2`, or `org/agent@prod` to follow a channel, if `agent_id` is not set.'),
  agent_name: z.string().nullish().describe('Name of the agent, if neither `agent_id` nor `agent` is set.'),
  agent_version: z
    .string()
    .nullish()
    .describe('`v2`, `latest` or a channel. Default: the version in `agent`, else `latest`.'),
  service_name: name.nullish().describe('Name of the service. Default: the name of the agent.'),
  name: name.nullish().describe('The same as `service_name`.'),
  min_instances: instances.nullish().describe('Minimum number of running instances. Default: 1.'),
  max_instances: instances.nullish().describe('Maximum number of instances. Default: `min_instances`.'),
  overlap: overlap.nullish(),
  command: command.nullish(),
  args: args.nullish(),
  env: env.nullish(),
  secret_names: secretNames.nullish(),
  auto_update: z.boolean().nullish().describe('Whether the service follows new versions of its agent. Default: true.'),
  alert_webhook_url: alertUrl.nullish(),
  max_restart_failures: maxFailures.nullish(),
});
export type NewServiceBody = z.output<typeof newService>;

/** `null` removes a command, arguments or an alert URL; for other members it is equivalent to omitting them. */
export const serviceChanges = z.object({
  env: env.nullish(),
  secret_names: secretNames.nullish(),
  alert_webhook_url: alertUrl.nullish(),
  max_restart_failures: maxFailures.nullish(),
  min_instances: instances.nullish(),
  max_instances: instances.nullish(),
  overlap: overlap.nullish(),
  command: command.nullish(),
  args: args.nullish(),
  auto_update: z.boolean().nullish(),
  desired_state: z
    .enum(['running', 'stopped'])
    .nullish()
    .describe('`stopped` pauses the service, `running` starts it again.'),
});
export type ServiceChangesBody = z.output<typeof serviceChanges>;

export const listQuery = z.object({
  status: state.optional().describe('Only services in this state. Default: all except deleted ones.'),
  limit: count.min(1).max(200).default(100),
  offset: count.min(0).default(0),
});

export const logsQuery = z.object({
  limit: count.min(1).max(500).default(100).describe('Maximum number of lines; the latest are returned.'),
  since: requestTime.optional().describe('Only lines at or after this time.'),
  severity: z
    .preprocess((given) => (typeof given === 'string' ? given.toUpperCase() : given), z.enum(LOG_SEVERITIES))
    .optional()
    .describe('Only lines of this severity and above.'),
});

export const logLine = z.object({
  timestamp: time.nullable(),
  severity: z.enum(LOG_SEVERITIES),
  message: z.string(),
  source: z.enum(LOG_SOURCES).optional().describe('Source of the line; absent in lines of older versions.'),
});
