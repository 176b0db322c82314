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

/** A service. Some members have two names, for clients of either. */
export const serviceView = z.object({
  id: z.uuid(),
  workspace_id: z.uuid(),
  agent_id: z.uuid().describe('The agent version that it runs.'),
  agent_name: z.string(),
  agent_version: z.string(),
  service_name: z.string(),
  name: z.string().describe('The same as `service_name`.'),
  desired_state: z.enum(['running', 'stopped']),
  current_state: state,
  state: state.describe('The same as `current_state`.'),
  health_status: health.describe('How many instances are ready: at least `min_instances`, some, or none.'),
  health: health.describe('The same as `health_status`.'),
  service_url: z.string().nullable().describe('The public address; `null` until the host has assigned it.'),
  service_tier: z.enum(['standard', 'performance']),
  service_tier_label: z.string(),
  min_instances: z.int(),
  max_instances: z.int(),
  overlap: z.boolean().describe('Whether old instances serve until new ones are ready.'),
  command: z.string().nullable(),
  args: z.array(z.string()).nullable(),
  restart_count: z.int().describe('Restarts after crashes and on request.'),
  consecutive_restart_failures: z.int(),
  max_restart_failures: z.int(),
  auto_paused_at: time.nullable().describe('When a crash loop or a budget paused it. null: neither has.'),
  last_restart_at: time.nullable(),
  last_deployed_at: time.nullable(),
  deployed_at: time.nullable().describe('The same as `last_deployed_at`.'),
  last_error: z.string().nullable(),
  alert_webhook_url: z.string().nullable(),
  auto_update: z.boolean().describe('Whether it follows new versions of its agent.'),
  env_json: variables,
  env: variables.describe('The same as `env_json`.'),
  secret_names: z.array(z.string()).describe('Secrets that it requires: those of its agent and those added to them.'),
  created_at: time,
  updated_at: time,
});

/** The record of a service is one item of a table, beside its instances and environment. */
const MAX_ARGS_BYTES = 64 * 1024;

const env = variables.describe('Plain variables, shown to all members. All of them: what is not sent is removed.');
const secretNames = z
  .array(z.string())
  .max(100)
  .describe('Names of further secrets, beside those of the agent. All of them: what is not sent is removed.');
const instances = z.int().min(1).max(1_000);
const command = z
  .string()
  .min(1)
  .max(10_000)
  .describe("A shell line; with `args`, a program. Without it, the agent's own command.");
const args = z
  .array(z.string().max(10_000))
  .max(100)
  .refine((words) => Buffer.byteLength(words.join('')) <= MAX_ARGS_BYTES, 'must have at most 64 KB together')
  .describe('Arguments of `command`, at most 64 KB together.');
const name = z
  .string()
  .max(63)
  .regex(/^[A-Za-z0-9](?:[\w .-]*[A-Za-z0-9])?$/, 'must be letters, digits, spaces and ". _ -" between them');
const maxFailures = z.int().min(1).max(50).describe('Failed restarts in a row that pause it. By default 5.');
const alertUrl = z
  .string()
  .max(2048)
  .describe(
    'Where crash loops are reported: an https:// address of the public internet, or an empty string for nowhere.',
  );
const overlap = z
  .boolean()
  .describe(
    '`false` for processes that must not run twice: old instances end before new ones start. By default `true`.',
  );

/** `null` means the same as leaving the member out. */
export const newService = z.object({
  agent_id: z.string().nullish().describe('The id of an agent version.'),
  agent: z.string().nullish().describe('`org/agent`, or `org/agent@v2`, where there is no `agent_id`.'),
  agent_name: z.string().nullish().describe('Name of the agent, where there is neither of the two.'),
  agent_version: z
    .string()
    .nullish()
    .describe('`v2` or `latest`. By default the version that is named, else `latest`.'),
  service_name: name.nullish().describe('By default the name of the agent.'),
  name: name.nullish().describe('The same as `service_name`.'),
  min_instances: instances.nullish().describe('Number of instances that always run. By default 1.'),
  max_instances: instances.nullish().describe('Maximum number of instances. By default as many as `min_instances`.'),
  overlap: overlap.nullish(),
  command: command.nullish(),
  args: args.nullish(),
  env: env.nullish(),
  secret_names: secretNames.nullish(),
  auto_update: z.boolean().nullish().describe('Whether it follows new versions of its agent. By default it does.'),
  alert_webhook_url: alertUrl.nullish(),
  max_restart_failures: maxFailures.nullish(),
});
export type NewServiceBody = z.output<typeof newService>;

/** `null` removes a command, arguments or an address for alerts; elsewhere it means the same as leaving the member out. */
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
  desired_state: z.enum(['running', 'stopped']).nullish().describe('`stopped` pauses it, `running` starts it again.'),
});
export type ServiceChangesBody = z.output<typeof serviceChanges>;

export const listQuery = z.object({
  status: state.optional().describe('Only services in this state. Without it, all but deleted ones.'),
  limit: count.min(1).max(200).default(100),
  offset: count.min(0).default(0),
});

export const logsQuery = z.object({
  limit: count
    .min(1)
    .max(500)
    .default(100)
    .describe('Maximum number of lines; if there are more, the newest are answered.'),
  since: requestTime.optional().describe('Only lines of this time and later.'),
  severity: z
    .preprocess((given) => (typeof given === 'string' ? given.toUpperCase() : given), z.enum(LOG_SEVERITIES))
    .optional()
    .describe('Only lines of this severity and above.'),
});

export const logLine = z.object({
  timestamp: time.nullable(),
  severity: z.enum(LOG_SEVERITIES),
  message: z.string(),
  source: z.enum(LOG_SOURCES).optional().describe('Who wrote it; absent in lines of older versions.'),
});
