import * as z from 'zod';
import { END_STATUSES } from '#core/base/run-kinds.ts';
import { EXECUTION_ENGINES } from '#core/manifest/engines.ts';
import { EVAL_TEXTS, evalSettingsView } from '#core/manifest/evals/settings-view.ts';
import { QUEUE_TEXTS, queueViews } from '#core/manifest/queue-shapes.ts';
import { retryView } from '#core/manifest/retry-policy.ts';
import { BUSY } from '#core/manifest/session-rules.ts';
import { GATE_STATUSES } from '#core/manifest/version.ts';

/** JSON whose shape the author defines. */
const anyObject = z.record(z.string(), z.unknown());
const strings = z.array(z.string());

const dependencies = z.object({ id: z.string(), version: z.string() });

/** The orchestration section, with the members that clients expect inside it (`docs/interface/agents.md#records`). */
const manifestView = z.looseObject({
  dependencies: z.array(dependencies).optional(),
  custom_tools: z.array(anyObject).optional(),
  environment: anyObject.optional(),
});

const sessionRulesView = z.object({
  busy: z.enum(BUSY).optional().describe('What a message does while another one of its session is under way.'),
  ttl_days: z.int().optional().describe('Days after its last message for which a session is kept.'),
});

/** The public view of an agent version (`docs/interface/agents.md#records`). */
export const publicAgent = z.object({
  id: z.uuid(),
  org_id: z.uuid(),
  org_name: z.string(),
  org_slug: z.string(),
  name: z.string().describe('Name of the agent, unique in its workspace.'),
  version: z.string().describe('`v` and a number, assigned by the server.'),
  type: z
    .enum(['prompt', 'tool', 'agent', 'skill'])
    .describe(
      '`prompt`: one question to a model. `tool`: a program. `agent`: a model that uses tools. `skill`: a text for other agents.',
    ),
  run_mode: z.enum(['on_demand', 'always_on']),
  execution_engine: z.enum(EXECUTION_ENGINES).nullable(),
  callable: z.boolean(),
  description: z.string().nullable().describe('What it does, for people and for models that choose a tool.'),
  tags: strings,
  supported_providers: strings,
  default_endpoint: z.string(),
  timeout_seconds: z.number().describe('Maximum time of a run, in seconds.'),
  retry_on_interruption: z.boolean().describe('Whether a run that loses its sandbox is retried once.'),
  durable: z
    .union([
      z.literal(false),
      z.object({
        max_active_seconds: z.int().optional().describe('Absent: the limit of the plan.'),
        max_wait_seconds: z
          .int()
          .optional()
          .describe('Maximum time that a run waits, in total. Absent: the limit of the plan.'),
        steps: z.literal(true).optional().describe('Whether its program does steps that are not repeated.'),
      }),
    ])
    .describe(
      'Whether runs survive the process that works on them, and for how many seconds they are worked on at most.',
    ),
  reuse: z
    .object({
      mode: z.literal('process').describe('The only mode: the process of the program stays.'),
      idle_seconds: z.int().optional().describe('How long an idle program stays, in seconds. Absent: 300.'),
      max_uses: z.int().optional().describe('Inputs after which a program is started anew. Absent: 1,000.'),
      concurrency: z.int().optional().describe('Inputs that a program handles at once. Absent: 1.'),
    })
    .optional()
    .describe('Whether its program stays for further calls. Absent: each run has a process of its own.'),
  retry: retryView.nullable().describe('When a failed run is tried again, if nobody waits for it. null: never.'),
  concurrency: queueViews.concurrency.nullable().describe(`${QUEUE_TEXTS.concurrency} null: no such rule.`),
  rate: queueViews.rate.nullable().describe(`${QUEUE_TEXTS.rate} null: no such rule.`),
  debounce: queueViews.debounce.nullable().describe(`${QUEUE_TEXTS.debounce} null: no such rule.`),
  sessions: z
    .union([z.literal(false), sessionRulesView])
    .nullable()
    .describe('The defaults of its sessions; false: it takes none. null: the defaults of the platform.'),
  workspace: z
    .literal(true)
    .optional()
    .describe('The messages of a session share the files in /home/user. Absent: not.'),
  input_schema: anyObject.nullable(),
  output_schema: anyObject.nullable(),
  accepts_files: z.boolean(),
  accept: strings.describe('Media types such as `image/*` and extensions such as `.pdf`; empty: all.'),
  max_files: z.int().nullable().describe('Maximum number of files of one call. null: the agent sets no limit.'),
  required_secrets: strings,
  optional_secrets: strings,
  egress: strings.describe(
    'Databases and other servers, as `host:port`, that it connects to if the workspace allows it.',
  ),
  default_skills: strings,
  skills_locked: z.boolean(),
  allow_local_download: z.boolean(),
  source_url: z.string().nullable(),
  run_command: z.string().nullable(),
  url: z.string().nullable(),
  sdk_compatible: z.boolean(),
  manifest: manifestView.optional().describe('Left out for server-only and paid agents.'),
  prompt: z.string().nullable().optional().describe('Left out for server-only and paid agents.'),
  skill_files: z
    .array(anyObject)
    .optional()
    .describe(
      'Left out for server-only and paid agents. Lists and public views have no contents of skills with binary files or more than 500,000 bytes.',
    ),
  created_at: z.iso.datetime(),
  stars_count: z.int(),
  pricing_mode: z.enum(['free', 'per_call']),
  price_per_call_cents: z.int().nullable(),
});

const environment_error = z
  .string()
  .nullable()
  .describe(
    'For a failed installation: the line of pip or npm with the cause, then the beginning and the end of the output.',
  );

/** The view for the agent's own workspace (`docs/interface/agents.md#records`). */
export const agentRecord = publicAgent.extend({
  updated_at: z.iso.datetime(),
  is_public: z.boolean(),
  runtime: anyObject.nullable(),
  loop: anyObject.nullable(),
  default_models: z.record(z.string(), z.string()),
  model_settings: anyObject.nullable(),
  model_tasks: z.record(z.string(), z.string()).nullable(),
  environment: anyObject.nullable(),
  build: strings.optional().describe('Commands that build the program at upload. Left out: the default.'),
  evals: evalSettingsView.nullable().describe(`${EVAL_TEXTS.evals} null: by none of these rules.`),
  pip_package: z.string().nullable(),
  entrypoint: z.string().nullable(),
  code_bundle_url: z
    .string()
    .nullable()
    .describe('URL where the owners can download the code bundle; null without one.'),
  runnable: z.boolean().describe('False while the code bundle or its dependencies are missing.'),
  environment_status: z
    .enum(['building', 'ready', 'failed'])
    .nullable()
    .describe('How the installation of dependencies is. null: there is nothing to install.'),
  environment_error,
  forked_from: z.string().nullable(),
  gate: z
    .object({
      status: z
        .enum(GATE_STATUSES)
        .describe(
          '`pending`: it waits until it can run, and for its evaluation. `failed`: it is held. `passed`, `overridden`: it may be latest.',
        ),
      eval_id: z.uuid().describe('The evaluation that decides, or decided last.'),
      verdict: z.string().nullable().describe('Verdict of that evaluation. null: it has none.'),
      reason: z.string().nullable().describe('Why it is held, or why an owner opened the gate. null: neither.'),
      since: z.iso
        .datetime()
        .nullable()
        .describe('Since when it can run, and waits at most an hour. null: it cannot run yet.'),
      decided_at: z.iso.datetime().nullable().describe('When the last decision was made. null: none was.'),
      decided_by: z.string().nullable().describe('Id of the owner who opened the gate. null: the platform decided.'),
    })
    .nullable()
    .describe('What it has to pass before it becomes latest. null: nothing.'),
  preview: z
    .object({
      name: z.string().describe('Members of the workspace call it as `agent@name`.'),
      ends_at: z.iso.datetime().describe('When it ends by itself.'),
    })
    .nullable()
    .describe('Of a preview, which never becomes latest. null: it is none.'),
});

const lastRun = z
  .object({
    run_id: z.uuid().nullable().describe('Null for a run in another workspace.'),
    status: z.enum(END_STATUSES),
    started_at: z.iso.datetime(),
  })
  .nullable()
  .optional();

/** `GET /agents` (`docs/interface/agents.md#lists`). */
export const listedAgent = agentRecord.extend({
  versions: z.int().optional().describe('Number of versions that are not deleted. Only with `latest`.'),
  current_version: z
    .string()
    .nullable()
    .optional()
    .describe('What `latest` calls; null while no version can run. With `latest` or `name`.'),
  sunset_at: z.iso
    .datetime()
    .nullable()
    .optional()
    .describe('When a superseded version stops being called; null for others. With `name`.'),
  last_run: lastRun.describe('The newest ended run of all versions and callers; null if there is none. With `latest`.'),
  next_cursor: z
    .string()
    .nullable()
    .optional()
    .describe('The `cursor` of the next page, on the last agent of a page; null if there are no more agents.'),
});

/** `POST /agents/{id}/upload`. */
export const uploadedBundle = z.object({
  success: z.literal(true),
  code_hash: z.string().describe('SHA-256 of the zip, hexadecimal.'),
  bundle_id: z.string(),
  bundle_size_bytes: z.int(),
  size_bytes: z.int(),
  file_count: z.int(),
  entrypoint: z.string().nullable(),
  status: z.enum(['processing', 'active', 'error']),
  environment_status: z.enum(['building', 'ready', 'failed']).nullable(),
  environment_error,
  warnings: strings.describe('Sentences about likely mistakes.'),
  uploaded_at: z.iso.datetime(),
  services_updated: z.int(),
});

/** `GET /public/agents/{org}/{agent}/{version}/download` (`docs/interface/agents.md#catalog`). */
export const download = z.object({
  id: z.uuid(),
  type: publicAgent.shape.type,
  name: publicAgent.shape.name,
  version: publicAgent.shape.version,
  description: publicAgent.shape.description,
  run_mode: publicAgent.shape.run_mode,
  execution_engine: publicAgent.shape.execution_engine,
  callable: z.boolean(),
  runtime: anyObject.nullable(),
  loop: anyObject.nullable(),
  prompt: z.string().nullable(),
  input_schema: anyObject.nullable(),
  output_schema: anyObject.nullable(),
  supported_providers: strings,
  default_models: z.record(z.string(), z.string()),
  model_settings: anyObject.nullable(),
  default_skills: strings,
  skills_locked: z.boolean(),
  dependencies: z.array(dependencies),
  source_url: z.string().nullable(),
  pip_package: z.string().nullable(),
  run_command: z.string().nullable(),
  url: z.string().nullable(),
  entrypoint: z.string().nullable(),
  has_bundle: z.boolean(),
  files: z
    .array(
      z.object({
        path: z.string(),
        content: z.string().optional(),
        encoding: z.literal('base64').optional().describe('Of the content; absent for text.'),
      }),
    )
    .describe('Further files of a skill.'),
  manifest: manifestView,
});

const treeMembers = {
  type: publicAgent.shape.type.nullable().describe('Null if the caller may not see the agent.'),
  skills: strings.describe('Its default_skills, as `org/skill` or `org/skill@v1`.'),
  skills_locked: z.boolean(),
};

/** `GET /agents/{org}/{agent}/{version}/tree` (`docs/interface/agents.md#tree`). */
export const agentTree = z.object({
  agent: z.string().describe('`org/agent@v1`.'),
  ...treeMembers,
  dependencies: z.array(
    z.object({
      agent: z.string(),
      accessible: z.boolean().describe('False if the agent does not exist or is private to another workspace.'),
      ...treeMembers,
      dependencies: z.array(anyObject).describe('The agents that it calls, in entries of the same shape.'),
      repeated: z.literal(true).optional().describe('Its own dependencies are shown where it occurs first.'),
    }),
  ),
  summary: z.object({
    total_agents: z.int().describe('Number of distinct versions in the tree, including this one.'),
    total_skills: z.int(),
    max_depth: z.int().describe('Number of levels of dependencies below the agent.'),
    has_locked_skills: z.boolean(),
  }),
});
