import * as z from 'zod';
import { SETTING_EFFORTS, SETTINGS } from '#core/models/model-settings.ts';
import { LLM_PROVIDERS } from '#core/ports/llm.ts';
import { APPROVAL_TEXTS } from '../approval.ts';
import { EVAL_TEXTS, ONLINE_TEXTS } from '../evals/settings-view.ts';
import { IGNORED, MEMBERS } from '../parsing/members.ts';
import { QUEUE_TEXTS } from '../queue-shapes.ts';
import { RETRY_TEXTS } from '../retry-policy.ts';
import { fixtureShape } from './fixture.ts';

type JsonSchema = Record<string, unknown>;

/** Author files that have a schema: `agent.json`, `schema.json` and `tests/fixture-*.json`. */
export const EDITOR_SCHEMAS = ['agent.json', 'schema-file.json', 'fixture.json'] as const;
type EditorSchema = (typeof EDITOR_SCHEMAS)[number];

/** Returns the JSON Schema (draft-07) of an author file. */
export function editorSchema(file: EditorSchema): JsonSchema {
  if (file === 'agent.json') return agentSchema();
  return file === 'fixture.json' ? fixtureSchema() : schemaFileSchema();
}

const toDraft7 = (shape: z.ZodType): JsonSchema =>
  z.toJSONSchema(shape, { target: 'draft-07', io: 'input', unrepresentable: 'any' });

function agentSchema(): JsonSchema {
  const { name, description, ...others } = MEMBERS;
  const ignored = Object.fromEntries(IGNORED.map((member) => [member, z.unknown()]));
  const shape = z.looseObject({ name, description, ...z.object({ ...others, ...ignored }).partial().shape });
  return { ...described(toDraft7(shape), ''), title: 'Manifest of an agent' };
}

const schemaFileSchema = (): JsonSchema => {
  const schema = z.looseObject({}).describe('A JSON Schema: 2020-12, 2019-09 or draft-07.');
  const shape = z
    .strictObject({ $schema: z.string().describe('Schema for editors; ignored.'), input: schema, output: schema })
    .partial();
  return { ...toDraft7(shape), title: 'Schemas of an agent’s input and output' };
};

const fixtureSchema = (): JsonSchema => ({ ...toDraft7(fixtureShape), title: 'Fixture: a test of an agent' });

/** Adds the descriptions, and makes editors mark unknown members, which a publish ignores. */
function described(schema: JsonSchema, path: string): JsonSchema {
  const { properties, items, anyOf, ...rest } = schema;
  // A null member counts as absent, and authors do not write it.
  const [only, ...others] = ((anyOf as JsonSchema[]) ?? []).filter(({ type }) => type !== 'null');
  if (only !== undefined && others.length === 0) return described({ ...rest, ...only }, path);
  const about = ABOUT[path.replace(/^(loop)\.(custom_tools|mcp_servers)\b/, '$2').replace(PROVIDER_SETTINGS, '')];
  return {
    ...rest,
    ...(about !== undefined && { description: about }),
    ...(items !== undefined && { items: described(items as JsonSchema, `${path}[]`) }),
    ...(anyOf !== undefined && { anyOf }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties as Record<string, JsonSchema>).map(([name, member]) => [
          name,
          described(member, path === '' ? name : `${path}.${name}`),
        ]),
      ),
      additionalProperties: false,
    }),
  };
}

const PROVIDER_SETTINGS = new RegExp(`(?<=^model_settings)\\.(${LLM_PROVIDERS.join('|')})(?=\\.)`);

const SKILLS = 'Skills, such as "org/skill@v1".';

/** Descriptions of the members of a manifest (`docs/manifest.md`). */
const ABOUT: { readonly [path: string]: string } = {
  name: '2 to 50 lower-case letters, digits and single hyphens.',
  type: 'prompt (default): one question to a model. tool: a program. agent: a model that uses tools. skill: a text for other agents. code and agentic are older names of tool and agent.',
  run_mode: 'on_demand (default), or always_on for services.',
  runtime: 'Makes the agent a program.',
  'runtime.command': 'The shell line that starts the program, in the bundle’s folder.',
  loop: 'Makes the agent a loop: a model that uses tools.',
  'loop.max_turns': 'Maximum number of model turns; 25 by default.',
  'loop.max_cost_usd': 'Maximum model cost of one run, in US dollars. No limit by default.',
  'loop.on_max_cost':
    '"ask" lets a person decide whether a run may cost more; "end" by default. The loop is then durable.',
  'loop.tools':
    'The tools of the platform, and of MCP servers, that the loop may use. By default those of the sandbox: bash, read_file, write_file and list_files.',
  'loop.memory': 'Settings of the memory tools.',
  'loop.memory.scope':
    'Whose memory the loop works with: "tenant" (default) is that of the tenant of the call, and without one that of the workspace; "workspace" is always that of the workspace.',
  max_turns: 'Older position of loop.max_turns.',
  custom_tools: 'Tools of the loop: shell commands with {{placeholders}}.',
  'custom_tools[].name': '1 to 64 letters, digits, "_" and "-".',
  'custom_tools[].description': 'Tells the model what the tool does and when to use it.',
  'custom_tools[].command': 'The shell command. {{name}} stands for a value that the model gives, quoted.',
  'custom_tools[].reuse':
    '"process" lets the program of the tool stay for further calls, of this run and others; it must call serve() of the SDK. By default each call starts a program.',
  'custom_tools[].reuse.mode': '"process": the program stays.',
  'custom_tools[].reuse.idle_seconds': 'How long an idle program stays, in seconds; 300 by default.',
  'custom_tools[].reuse.max_uses': 'Number of inputs after which the program is started anew; 1,000 by default.',
  'custom_tools[].reuse.concurrency': 'Number of inputs that one program may handle at once; 1 by default.',
  'custom_tools[].interruption':
    'What happens to a call that was in progress when a durable run was interrupted: "retry" makes it again, "unknown" (the default) tells the model that it may have had its effect.',
  'custom_tools[].approval': APPROVAL_TEXTS.approval,
  'custom_tools[].approval.when': APPROVAL_TEXTS.when,
  'custom_tools[].approval.timeout_seconds': APPROVAL_TEXTS.timeout_seconds,
  'custom_tools[].approval.on_timeout': APPROVAL_TEXTS.on_timeout,
  'custom_tools[].input_schema': 'JSON Schema of the values; required with {{placeholders}}.',
  mcp_servers: 'MCP servers whose tools the loop may use.',
  'mcp_servers[].name': '1 to 24 lower-case letters, digits and single hyphens.',
  'mcp_servers[].url': 'The https address of the server. One of url, service and command is required.',
  'mcp_servers[].service': 'The name of a service of the workspace that is the server.',
  'mcp_servers[].path': 'The path of the server at the service; /mcp by default.',
  'mcp_servers[].transport': 'Streamable HTTP, then the older SSE by default.',
  'mcp_servers[].command': 'The program in the sandbox that is the server and speaks over stdin and stdout.',
  'mcp_servers[].args': 'Arguments of the command.',
  'mcp_servers[].args[]': 'An argument.',
  'mcp_servers[].env':
    'Variables of the command. A $ with the name of a declared secret in braces stands for the secret.',
  'mcp_servers[].headers':
    'Headers of its requests. A $ with the name of a declared secret in braces stands for the secret.',
  'mcp_servers[].connection':
    'The name of a connection of the workspace or of the caller, whose access token is sent with its requests.',
  'mcp_servers[].tools': 'Tools that the model gets; all by default.',
  'mcp_servers[].read_only': 'Whether its tools change nothing, so that a call may be repeated.',
  'mcp_servers[].interruption':
    'What happens to a call that was in progress when a durable run was interrupted: "retry" if it is read_only, else "unknown".',
  'mcp_servers[].approval': `${APPROVAL_TEXTS.approval} "destructive": those of tools that may delete or overwrite something, as the server says.`,
  'mcp_servers[].approval.when': APPROVAL_TEXTS.when,
  'mcp_servers[].approval.timeout_seconds': APPROVAL_TEXTS.timeout_seconds,
  'mcp_servers[].approval.on_timeout': APPROVAL_TEXTS.on_timeout,
  'mcp_servers[].optional': 'Whether runs continue without it if it does not answer.',
  callable: 'Whether other agents may call it; true by default, false for skills.',
  description: 'What the agent does, for people and for models that choose among agents.',
  prompt: 'The prompt of a prompt or loop, with {{variables}}; a file prompt.md beside agent.json takes its place.',
  prompt_template: 'Older name of prompt.',
  input_schema: 'JSON Schema of the input; a file schema.json beside agent.json takes its place.',
  output_schema: 'JSON Schema of the output; a file schema.json beside agent.json takes its place.',
  accepts_files: 'Whether calls may have files; true by default.',
  accept: 'Accepted files: types such as "image/*" and extensions such as ".pdf". All by default.',
  max_files: 'Maximum number of files per call.',
  tags: 'Search keywords.',
  is_public: 'Whether every user of the platform may find and call it; false by default.',
  supported_providers: 'Providers whose models it runs with. ["any"] by default; loops run with anthropic.',
  default_models: 'Provider -> model id.',
  default_endpoint: 'Last segment of its endpoint address; run by default.',
  timeout_seconds: 'Timeout of a run in seconds: at most 300, the default. 0 only for always_on.',
  retry_on_interruption:
    'Whether a run that loses its sandbox is restarted once; false by default. Programs only; runs must be idempotent.',
  durable:
    'Whether runs survive the process that works on them, and may take hours; false by default. Loops and programs.',
  'durable.max_active_seconds': 'Maximum time that a run is worked on, in seconds. Default: the limit of the plan.',
  'durable.max_wait_seconds':
    'Maximum time that a run waits for people, time or events, in seconds, in total. Default: the limit of the plan.',
  'durable.steps':
    'Whether the program does steps with the SDK; false by default. It can then wait, and goes on after an interruption.',
  reuse:
    '"process" lets the program stay for further calls of the same workspace; it must call serve() of the SDK. By default each run has a process of its own. Programs only.',
  'reuse.mode': '"process": the program stays.',
  'reuse.idle_seconds': 'How long an idle program stays, in seconds; 300 by default.',
  'reuse.max_uses': 'Number of inputs after which the program is started anew; 1,000 by default.',
  'reuse.concurrency': 'Number of inputs that one program may handle at once; 1 by default.',
  retry:
    'When a failed run is tried again, if nobody waits for it: calls that are answered at once, schedules and replays.',
  'retry.max': RETRY_TEXTS.max,
  'retry.backoff_seconds': RETRY_TEXTS.backoff_seconds,
  'retry.on': RETRY_TEXTS.on,
  sessions: 'The defaults of its sessions; false: it takes none. Prompts, programs and loops take sessions by default.',
  'sessions.busy': 'What a message does while another one of its session is under way; enqueue by default.',
  'sessions.ttl_days': 'Days after its last message until a session is erased; 30 by default.',
  concurrency: QUEUE_TEXTS.concurrency,
  'concurrency.limit': QUEUE_TEXTS.limit,
  'concurrency.key': QUEUE_TEXTS.key,
  'concurrency.on_limit': QUEUE_TEXTS.on_limit,
  rate: QUEUE_TEXTS.rate,
  'rate.count': QUEUE_TEXTS.count,
  'rate.seconds': QUEUE_TEXTS.rate_seconds,
  'rate.key': QUEUE_TEXTS.key,
  debounce: QUEUE_TEXTS.debounce,
  'debounce.seconds': QUEUE_TEXTS.debounce_seconds,
  'debounce.key': QUEUE_TEXTS.key,
  workspace:
    'Whether the files in /home/user are kept from one message of a session to the next; false by default. Loops and programs.',
  evals: EVAL_TEXTS.evals,
  'evals.gate': EVAL_TEXTS.gate,
  'evals.baseline': EVAL_TEXTS.baseline,
  'evals.online': ONLINE_TEXTS.online,
  'evals.online.sample': ONLINE_TEXTS.sample,
  'evals.online.budget_usd_per_day': ONLINE_TEXTS.budget_usd_per_day,
  'evals.online.judge': ONLINE_TEXTS.judge,
  'evals.online.assert': ONLINE_TEXTS.assert,
  'evals.online.assert[].type': 'The type, such as "llm-rubric"; "not-" before it means the opposite.',
  'evals.online.assert[].value': 'What the output is compared with; a rubric; a program.',
  'evals.online.assert[].threshold': 'For some types: a limit, or the score that passes.',
  'evals.online.assert[].weight': 'Weight in the mean; 1 by default.',
  'evals.online.assert[].metric': 'Name of the score; the type by default.',
  'evals.online.assert[].path': 'The part of the output, such as "$.label"; all of it by default.',
  'evals.online.assert[].times': 'For tool-called: how often exactly.',
  required_secrets: 'Names of secrets that a run requires. Required for tools and agents, [] if there are none.',
  optional_secrets: 'Names of secrets that a run gets if the workspace has them.',
  egress:
    'Databases and other servers that it connects to besides HTTP and HTTPS. An owner of the workspace allows them.',
  'egress[]': 'host:port, such as db.example.com:5432.',
  no_required_secrets: 'true means required_secrets: [].',
  default_skills: SKILLS,
  skills_locked: 'Whether callers’ skills are ignored; false by default.',
  skill_files: 'Further files of a skill.',
  'skill_files[].path': 'Path below the skill’s folder.',
  'skill_files[].content': 'The text, or base64.',
  'skill_files[].encoding': 'base64 for a file that is not text.',
  entrypoint: 'The file to start, without runtime.command.',
  run_command: 'Used without runtime.command.',
  build:
    'Shell command, or list of commands, that builds the program at upload, with devDependencies: "npm run build". [] for none.',
  'build[]': 'A shell command.',
  source_url: 'Git address of the source, for local execution.',
  pip_package: 'Package to install for local execution.',
  url: 'Address of an externally hosted agent.',
  bundle: 'Which files of the folder are packed.',
  'bundle.include': 'Glob patterns of files to include that are excluded by default; overrides exclude.',
  'bundle.exclude': 'Glob patterns of files to exclude.',
  sdk_compatible: 'Whether the program uses the SDK.',
  allow_local_download: 'Whether others may read its prompt, manifest and code; false by default.',
  manifest: 'Dependencies and limits of an orchestrator.',
  'manifest.manifest_version': '1.',
  'manifest.dependencies': 'The agents that it calls.',
  'manifest.dependencies[].id': 'org/agent, or a2a: and the https address of the card of an agent of others.',
  'manifest.dependencies[].version': 'An exact version such as "v1"; not of an agent of others.',
  'manifest.dependencies[].name': 'For an agent of others: 1 to 24 lower-case letters, digits and single hyphens.',
  'manifest.dependencies[].headers': `For an agent of others: headers of the requests to it; "\${NAME}" stands for a secret.`,
  'manifest.dependencies[].connection':
    'For an agent of others: the name of a connection, whose access token is sent with the requests to it.',
  'manifest.dependencies[].approval': `For the custom tools that call it. ${APPROVAL_TEXTS.approval}`,
  'manifest.dependencies[].approval.when': APPROVAL_TEXTS.when,
  'manifest.dependencies[].approval.timeout_seconds': APPROVAL_TEXTS.timeout_seconds,
  'manifest.dependencies[].approval.on_timeout': APPROVAL_TEXTS.on_timeout,
  'manifest.max_hops': 'Maximum depth of calls below a run; at least 1 with dependencies.',
  'manifest.timeout_ms': 'Total time of a run with its calls, in milliseconds; required with dependencies.',
  'manifest.per_call_downstream_cap': 'Budget of each call of a dependency; 50 by default.',
  'manifest.orchestration_mode': 'For loops with dependencies: strict (default) or flexible.',
  'manifest.min_required_hops': 'Minimum remaining depth of calls when it is called; 0 by default.',
  'manifest.region': 'Stored, without effect.',
  'manifest.visibility': 'Stored, without effect.',
  'manifest.recommended_min_caller_budget': 'The smallest budget with which agents call it; 0 by default.',
  'manifest.downstream_spend_cap': 'Maximum total cost of the calls below one run, in cents.',
  environment: 'Versions and flags for the installation of dependencies.',
  'environment.python_version': 'Version of Python that it runs with, such as "3.12".',
  'environment.node_version': 'Version of Node.js that it runs with, such as "22".',
  'environment.pip_flags': 'Flags of pip install.',
  'environment.npm_flags': 'Flags of npm install.',
  model_settings: 'Settings of model requests; also below a provider’s name, for that provider only.',
  'model_settings.effort': `Reasoning effort: ${SETTING_EFFORTS.join(', ')}.`,
  'model_settings.max_output_tokens': 'Maximum tokens of an answer.',
  'model_settings.temperature': '0 to 2, for models that support it.',
  'model_settings.stop': 'Texts that end an answer.',
  'model_settings.seed': 'For models that support it.',
  'model_settings.parallel_tool_calls': 'Whether a turn of a loop may have several tool calls.',
  'model_settings.callers_may_set': `Settings that callers may change, of ${SETTINGS.join(', ')}.`,
  ...Object.fromEntries(
    LLM_PROVIDERS.map((provider) => [`model_settings.${provider}`, `Settings for ${provider} only.`]),
  ),
  model_tasks: 'Task -> model id, with the task "default".',
  pricing_mode: 'free or per_call; must fit price_per_call_cents.',
  price_per_call_cents: 'Credits that a call costs other workspaces, in cents.',
  ...Object.fromEntries(IGNORED.map((name) => [name, 'Ignored; agent records contain it.'])),
  $schema: 'Schema for editors; ignored.',
};
