import * as z from 'zod';
import { countText } from '#core/base/size-text.ts';
import { MAX_ACTIVE_SECONDS, MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { providerShape } from '#core/models/provider-shape.ts';
import { egressTargetProblem, MAX_EGRESS_TARGETS } from '#core/outbound/egress-target.ts';
import { PROVIDER_NAMES } from '#core/ports/llm.ts';
import { entrypointProblem } from '../bundle/entrypoint.ts';
import { LOOP_TOOLS, MAX_DURABLE_TURNS, MAX_TURNS, MEMORY_SCOPES } from '../definition.ts';
import { evalSettingsShape } from '../evals/settings.ts';
import { isAcceptEntry } from '../file-rules.ts';
import { reuseShape } from '../program-reuse.ts';
import { queueShapes } from '../queue-shapes.ts';
import { REFERENCE } from '../references.ts';
import { retryShape } from '../retry-policy.ts';
import { BUSY, MAX_TTL_DAYS } from '../session-rules.ts';
import { mcpServersShape } from './mcp-servers.ts';
import { modelSettingsShape } from './model-settings.ts';
import { customToolsShape, orchestrationShape } from './orchestration.ts';

const TURNS_RULE = `must be from 1 to ${MAX_TURNS}`;
const DURABLE_TURNS_RULE = `must be from 1 to ${MAX_DURABLE_TURNS}`;
const ACTIVE_RULE = `must be a whole number of seconds from 1 to ${MAX_ACTIVE_SECONDS}`;
const WAIT_RULE = `must be a whole number of seconds from 1 to ${MAX_WAIT_SECONDS}`;

const TTL_RULE = `must be a whole number of days from 1 to ${MAX_TTL_DAYS}`;

const SECRET_NAME = /^[A-Z][A-Z0-9_]{0,127}$/;

const NAME_RULE = 'must be 2-50 lower-case letters, digits and single hyphens, with no hyphen at either end';

/** See `docs/interface/identifiers.md#formats`. */
const agentName = z
  .string(NAME_RULE)
  .min(2, NAME_RULE)
  .max(50, NAME_RULE)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, NAME_RULE);

const boolean = z.boolean('must be true or false');

const text = (max: number) =>
  z
    .string('must be a string')
    .max(max, `must be at most ${countText(max)} characters`)
    .refine((given) => given.trim() !== '', 'must not be empty');

const line = (max: number) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the rule refuses them.
  text(max).regex(/^[^\u0000-\u0008\u000b-\u001f\u007f]*$/, 'must not contain control characters');

const matching = (rule: string, pattern: RegExp, max = 200) =>
  z.string(rule).max(max, `must be at most ${max} characters`).regex(pattern, rule);

const list = <T extends z.ZodType>(element: T, max: number) =>
  z.array(element, 'must be an array').max(max, `must be at most ${max}`);

const secretNames = list(
  matching('must be upper-case letters, digits and "_", beginning with a letter', SECRET_NAME, 128),
  50,
);

const webAddress = (schemes: string[], rule: string) =>
  text(2048).refine((given) => {
    const url = URL.canParse(given) ? new URL(given) : undefined;
    return url !== undefined && schemes.includes(url.protocol) && url.password === '';
  }, rule);

const version = matching('must be a version such as "3.11"', /^\d+(\.\d+){0,2}$/, 20);
// The flags become part of a shell line.
const flags = matching('must be command-line flags without shell characters', /^[\w ./:=,+@~<>-]*$/, 500);

const ACCEPT_RULE = 'must be a media type such as "application/pdf" or "image/*", or an extension such as ".pdf"';
const ref = 'must be "skill", "org/skill" or "org/skill@v1"';
const MEMORY_RULE = 'must be "tenant" or "workspace"';
const provider = z.union([providerShape, z.literal('any')], `must be one of ${PROVIDER_NAMES} or any`);

/**
 * Members of the body of POST /agents and their shapes; a message completes "<member> ...". A null member counts as
 * absent. Rules about several members are in `manifest.ts`.
 */
export const MEMBERS = {
  name: agentName,
  type: z.enum(
    ['prompt', 'tool', 'agent', 'skill', 'code', 'agentic'],
    'must be prompt, tool, agent or skill (or the older code, agentic)',
  ),
  run_mode: z.enum(['on_demand', 'always_on'], 'must be on_demand or always_on'),
  runtime: z.looseObject({ command: line(10_000).nullish() }, 'must be an object'),
  loop: z.looseObject(
    {
      max_turns: z
        .int('must be a whole number from 1 to 50')
        .min(1, TURNS_RULE)
        .max(MAX_DURABLE_TURNS, DURABLE_TURNS_RULE)
        .nullish(),
      max_cost_usd: z
        .number('must be a number of US dollars')
        .positive('must be more than 0: leave it out for no limit')
        .nullish(),
      on_max_cost: z.enum(['end', 'ask'], 'must be "end" or "ask"').nullish(),
      custom_tools: customToolsShape.nullish(),
      tools: list(
        z.union(
          [z.enum(LOOP_TOOLS), z.templateLiteral(['mcp__', z.string().max(64)])],
          `must be one of ${LOOP_TOOLS.join(', ')}, or a tool of mcp_servers: submit_result and your own tools are always available`,
        ),
        100,
      ).nullish(),
      mcp_servers: mcpServersShape.nullish(),
      memory: z
        .strictObject(
          { scope: z.enum(MEMORY_SCOPES, MEMORY_RULE).nullish() },
          `must be an object with scope, which ${MEMORY_RULE}`,
        )
        .nullish(),
    },
    'must be an object',
  ),
  max_turns: z.int('must be a whole number from 1 to 50').min(1, TURNS_RULE).max(MAX_DURABLE_TURNS, DURABLE_TURNS_RULE),
  custom_tools: customToolsShape,
  mcp_servers: mcpServersShape,
  callable: boolean,
  description: text(2000),
  prompt: z.string('must be a string').max(200_000, 'must be at most 200,000 characters'),
  prompt_template: z.string('must be a string').max(200_000, 'must be at most 200,000 characters'),
  input_schema: z.unknown(),
  output_schema: z.unknown(),
  accepts_files: boolean,
  accept: list(z.string(ACCEPT_RULE).refine(isAcceptEntry, ACCEPT_RULE), 50),
  max_files: z
    .int('must be a whole number from 1 to 100')
    .min(1, 'must be from 1 to 100')
    .max(100, 'must be from 1 to 100'),
  tags: list(line(50), 30),
  is_public: boolean,
  supported_providers: list(provider, 10),
  default_models: z.record(z.string(), line(200), 'must be an object of provider -> model id'),
  default_endpoint: matching('must be letters, digits, "_" and "-"', /^[A-Za-z0-9][\w-]*$/, 64),
  timeout_seconds: z.number('must be a number of seconds').min(0, 'must not be negative'),
  retry_on_interruption: boolean,
  durable: z.union(
    [
      z.boolean(),
      z.strictObject({
        max_active_seconds: z.int(ACTIVE_RULE).min(1, ACTIVE_RULE).max(MAX_ACTIVE_SECONDS, ACTIVE_RULE).nullish(),
        max_wait_seconds: z.int(WAIT_RULE).min(1, WAIT_RULE).max(MAX_WAIT_SECONDS, WAIT_RULE).nullish(),
        steps: boolean.nullish(),
      }),
    ],
    `must be true, false, or an object with max_active_seconds, which ${ACTIVE_RULE}, max_wait_seconds, which ${WAIT_RULE}, and steps, which is true or false`,
  ),
  reuse: reuseShape,
  retry: retryShape,
  ...queueShapes,
  sessions: z.union(
    [
      z.boolean(),
      z.strictObject({
        busy: z.enum(BUSY, `must be one of ${BUSY.join(', ')}`).nullish(),
        ttl_days: z.int(TTL_RULE).min(1, TTL_RULE).max(MAX_TTL_DAYS, TTL_RULE).nullish(),
      }),
    ],
    'must be true, false, or an object with "busy" and "ttl_days"',
  ),
  workspace: boolean,
  evals: evalSettingsShape,
  required_secrets: secretNames,
  optional_secrets: secretNames,
  no_required_secrets: boolean,
  egress: list(
    z.string('must be a string').superRefine((target, context) => {
      const problem = egressTargetProblem(target);
      if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
    }),
    MAX_EGRESS_TARGETS,
  ),
  default_skills: list(matching(ref, REFERENCE), 20),
  skills_locked: boolean,
  skill_files: list(
    z.looseObject(
      {
        path: z.string('must be a string'),
        content: z.string('must be a string'),
        encoding: z.literal('base64', 'must be "base64", or absent for text').nullish(),
      },
      'must be an object',
    ),
    1000,
  ),
  entrypoint: text(1024).superRefine((path, context) => {
    const problem = entrypointProblem(path);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  }),
  run_command: line(10_000),
  build: z.union([line(10_000), list(line(10_000), 20)], 'must be a shell command, or a list of them'),
  source_url: z.union(
    [
      webAddress(['https:', 'ssh:', 'git+https:', 'git+ssh:'], 'git'),
      z
        .string()
        .max(2048)
        .regex(/^[\w.-]+@[\w.-]+:[\w./~-]+$/),
    ],
    'must be a git address (https://..., ssh://... or user@host:path) without a password in it',
  ),
  pip_package: matching('must be a package requirement', /^[A-Za-z0-9][\w.,[\]=<>!~ -]*$/),
  url: webAddress(['https:', 'http:'], 'must be an http(s) address without a password in it'),
  bundle: z.looseObject(
    { include: list(line(500), 200).nullish(), exclude: list(line(500), 200).nullish() },
    'must be an object with include and exclude',
  ),
  sdk_compatible: boolean,
  allow_local_download: boolean,
  manifest: orchestrationShape,
  environment: z.looseObject(
    {
      python_version: version.nullish(),
      node_version: version.nullish(),
      pip_flags: flags.nullish(),
      npm_flags: flags.nullish(),
    },
    'must be an object',
  ),
  model_settings: modelSettingsShape,
  model_tasks: z.record(z.string(), line(200), 'must be an object of task -> model id'),
  pricing_mode: z.enum(['free', 'per_call'], 'must be free or per_call'),
  price_per_call_cents: z
    .int('must be a whole number of cents')
    .min(0, 'must not be negative')
    .max(100_000, 'must be at most 100,000 cents'),
};

export type MemberName = keyof typeof MEMBERS;
/** Members that are present and have the right shape. */
export type Members = { [Name in MemberName]?: z.output<(typeof MEMBERS)[Name]> };

/** Members whose text never appears in a message: it may hold a secret, or be long. */
export const UNSHOWN: readonly string[] = [
  'required_secrets',
  'optional_secrets',
  'runtime',
  'run_command',
  'build',
  'source_url',
  'url',
  'prompt',
  'prompt_template',
  'environment',
  'skill_files',
];

/** Members of records and manifest files that a publish ignores without a warning. */
export const IGNORED: readonly string[] = [
  'version',
  'execution_engine',
  '$schema',
  'id',
  'org_id',
  'org_slug',
  'org_name',
  'created_at',
  'updated_at',
  'license',
  'author',
];
