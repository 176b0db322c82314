import type { AgentSettings } from '#core/models/model-settings.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { EvalSettings } from './evals/settings.ts';
import type { ProgramReuse } from './program-reuse.ts';
import type { QueueRules } from './queue-rules.ts';
import type { RetryPolicy } from './retry-policy.ts';
import type { SessionRules } from './session-rules.ts';

export type AgentType = 'prompt' | 'tool' | 'agent' | 'skill';
export type ExecutionEngine = 'direct_llm' | 'code_runtime' | 'managed_loop';

/**
 * The published manifest (`docs/interface/manifest.md`), with all defaults filled in and older forms converted to the
 * current one. Checking a definition again returns the same definition.
 */
export type AgentDefinition = {
  /** 2-50 lower-case letters, digits, single hyphens; unique in its workspace. */
  readonly name: string;
  /** The old types `code` and `agentic` are converted to `tool` and `agent`. */
  readonly type: AgentType;
  readonly run_mode: 'on_demand' | 'always_on';
  /** Derived from `runtime` or `loop`, else from the type; null for a skill, which does not run. */
  readonly execution_engine: ExecutionEngine | null;
  /** Whether other agents may call it. */
  readonly callable: boolean;
  readonly description: string;
  /** Prompt template, instructions of the loop, or body of SKILL.md; null if the engine needs none. */
  readonly prompt: string | null;
  /** Only for code_runtime. Members other than `command` are kept unchanged. */
  readonly runtime: { command?: string; [member: string]: unknown } | null;
  /** Only for managed_loop; custom tools are in `custom_tools`. */
  readonly loop: LoopLimits | null;
  /** Only for managed_loop. */
  readonly custom_tools: CustomTool[];
  /** JSON Schema. */
  readonly input_schema: Record<string, unknown> | null;
  /** JSON Schema. */
  readonly output_schema: Record<string, unknown> | null;
  /** Whether calls may have files; null, or absent in older definitions: derived by `file-rules.ts`. */
  readonly accepts_files?: boolean | null;
  /** Media types such as `image/*`, and extensions such as `.pdf`; null as above. */
  readonly accept?: string[] | null;
  /** Maximum files per call; null as above. */
  readonly max_files?: number | null;
  /** Never empty; `['anthropic']` for the type `agent`. */
  readonly supported_providers: (LlmProvider | 'any')[];
  /** Provider -> model id. */
  readonly default_models: Record<string, string>;
  /** Name of the endpoint; `run` works for every agent. */
  readonly default_endpoint: string;
  /** 0-300; 0 means no limit of its own, and is only for always_on. */
  readonly timeout_seconds: number;
  /**
   * Only for code_runtime: whether a run that loses its sandbox is restarted once
   * (`docs/interface/sandbox.md#interruptions`).
   * @default false, also in older definitions
   */
  readonly retry_on_interruption?: boolean;
  /**
   * Only for code_runtime: its program stays for further calls (`docs/interface/warm-programs.md`).
   * @default - each run has a process and a sandbox of its own
   */
  readonly reuse?: ProgramReuse;
  /**
   * Only for loops and programs: their runs may last for hours, beyond the call (`docs/interface/durable-runs.md`).
   * @default - they end with it
   */
  readonly durable?: Durability;
  /**
   * Retries of failed runs whose caller does not wait (`docs/interface/retries.md`).
   * @default - failed runs are not retried
   */
  readonly retry?: RetryPolicy;
  /** When runs may begin (`docs/interface/queues.md`). @default - at once, as far as the plan allows */
  readonly concurrency?: QueueRules['concurrency'];
  readonly rate?: QueueRules['rate'];
  readonly debounce?: QueueRules['debounce'];
  /**
   * The defaults of its sessions, or false if it takes none (`docs/interface/sessions.md`).
   * @default - the platform's defaults
   */
  readonly sessions?: SessionRules | false;
  /** Only for loops and programs: whether the messages of a session share the files in `/home/user`. @default false */
  readonly workspace?: true;
  /** How its versions are evaluated (`docs/interface/evals.md#settings`). @default - they are not */
  readonly evals?: EvalSettings;
  readonly tags: string[];
  readonly is_public: boolean;
  /** `skill`, `org/skill` or `org/skill@v1`. */
  readonly default_skills: string[];
  /** Whether callers cannot override `default_skills`. */
  readonly skills_locked: boolean;
  /** Names in the vault; a run is refused if one of them is missing. */
  readonly required_secrets: string[];
  /** Names in the vault; a run gets those that exist. Never also in `required_secrets`. */
  readonly optional_secrets: string[];
  /**
   * `host:port` of databases and other servers that it connects to besides the ports 80 and 443, in lower case; absent if
   * there are none (`docs/interface/egress.md`).
   */
  readonly egress?: string[];
  /** Path in the bundle. */
  readonly entrypoint: string | null;
  /** Shell lines that build it at upload; absent: see `bundle/build-step.ts`, empty: none. */
  readonly build?: string[];
  /** Git address, for local execution. */
  readonly source_url: string | null;
  /** Requirement, for local execution. */
  readonly pip_package: string | null;
  /** Shell command; `runtime.command` takes precedence. */
  readonly run_command: string | null;
  /** Address of an externally hosted agent. An address under `.internal` means "none" and becomes null. */
  readonly url: string | null;
  /** Glob patterns for the client that packs the bundle. */
  readonly bundle: { include: string[]; exclude: string[] } | null;
  /** Orchestration of calls to other agents. */
  readonly manifest: Orchestration | null;
  /** Only for skills: the files beside SKILL.md. */
  readonly skill_files: SkillFile[];
  /** Whether others may download its source; false: it runs on the server only. */
  readonly allow_local_download: boolean;
  /** Requested interpreter versions, and flags of the installers. */
  readonly environment: {
    python_version?: string;
    node_version?: string;
    pip_flags?: string;
    npm_flags?: string;
  } | null;
  /** Settings of requests to models. @default - the platform's defaults */
  readonly model_settings?: AgentSettings | null;
  /** Task name -> model id, with the key `default`. */
  readonly model_tasks: Record<string, string> | null;
  /** Whether it uses the SDK. */
  readonly sdk_compatible: boolean;
  /** Credits per call in cents; null: free. */
  readonly price_per_call_cents: number | null;
};

export type Durability = {
  /** Maximum time that a run is worked on. @default - the limit of the plan */
  max_active_seconds?: number;
  /** Maximum time that a run waits for people, time or events, in total. @default - the limit of the plan */
  max_wait_seconds?: number;
  /**
   * Only for programs: a run is started again from its top after it has waited or was interrupted, and gets the values of
   * the steps that it has done (`docs/interface/durable-programs.md`).
   */
  steps?: true;
};

/** What happens to a tool's call that was in progress when its run was interrupted. */
export const INTERRUPTIONS = ['retry', 'unknown'] as const;
export type Interruption = (typeof INTERRUPTIONS)[number];

/** Which calls of a tool wait until a person has approved them (`docs/interface/approvals.md#manifest`). */
export type Approval = {
  /** JSON Schema of the arguments of those calls. @default - all calls */
  when?: Record<string, unknown>;
  /** How long a call waits. @default - as long as the run may */
  timeout_seconds?: number;
  /** What happens when nobody has decided in time: the model is told, or the run fails. @default deny */
  on_timeout?: 'deny' | 'fail';
};

/** An agent version that another version may call. */
export type Dependency = {
  /** `org/agent`. */
  id: string;
  /** An exact version: `v1`. */
  version: string;
  /** For each custom tool that calls it, besides the tool's own. @default - never */
  approval?: Approval;
};

/** Tools for work that a run leaves behind or fetches. A loop has them only if it names them, so its own tools may have their names. */
export const OUTER_TOOLS = [
  'memory_list',
  'memory_read',
  'memory_write',
  'memory_delete',
  'web_search',
  'web_fetch',
] as const;
export type OuterTool = (typeof OUTER_TOOLS)[number];

/** Built-in tools of a managed loop, except `submit_result`, which ends it; it has all after `list_files` only if it names them. */
export const LOOP_TOOLS = [
  'bash',
  'read_file',
  'write_file',
  'list_files',
  'later',
  'ask_human',
  'wait',
  'event_url',
  ...OUTER_TOOLS,
] as const;
export type LoopTool = (typeof LOOP_TOOLS)[number];

/** Name of an MCP server's tool as the model sees it. */
export type McpToolName = `mcp__${string}`;

/** Maximum of `max_turns`, and of a durable loop's. */
export const MAX_TURNS = 50;
export const MAX_DURABLE_TURNS = 500;

/** `tenant`: that of the call's tenant, without one that of the workspace. `workspace`: always that of the workspace. */
export const MEMORY_SCOPES = ['tenant', 'workspace'] as const;
export type MemoryScope = (typeof MEMORY_SCOPES)[number];

export type LoopLimits = {
  /** 1 to {@link MAX_TURNS}, or to {@link MAX_DURABLE_TURNS} if it is durable. */
  max_turns: number;
  /**
   * Built-in tools that the loop may use, in addition to its custom tools. If the list names tools of MCP servers, the
   * loop may use only those of them.
   * @default - all
   */
  tools?: readonly (LoopTool | McpToolName)[] | null;
  /** Up to 8. Absent if there are none. */
  mcp_servers?: readonly McpServer[] | null;
  /** Maximum cost of a run's requests to models, in US dollars. @default - no limit */
  max_cost_usd?: number | null;
  /** Whose memory its tools work with. @default - the tenant's, else the workspace's */
  memory?: { scope?: MemoryScope | null } | null;
  /** Whether the run waits for a person before it reaches {@link max_cost_usd}. @default 'end' */
  on_max_cost?: 'end' | 'ask' | null;
  [member: string]: unknown;
};

/** HTTP transports of MCP: Streamable HTTP, since the revision of 2025-03-26, and SSE, of 2024-11-05. */
/** `a2a`: it is no server but an agent of others, of which `url` is the card (`docs/interface/a2a.md#dependencies`). */
export const MCP_TRANSPORTS = ['streamable-http', 'sse', 'a2a'] as const;
export type McpTransport = (typeof MCP_TRANSPORTS)[number];

/** A Model Context Protocol server whose tools a loop may use (`docs/interface/mcp-servers.md`). */
export type McpServer = {
  /** Lower-case letters, digits, single hyphens; part of the names of its tools. */
  name: string;
  /** Exactly one of `url`, `service` and `command` is set. */
  url?: string;
  /** Name or id of a service of the agent's workspace. */
  service?: string;
  /** Path of the server at `service`. */
  path?: string;
  /** @default - Streamable HTTP, then `sse` as the protocol says */
  transport?: McpTransport;
  /** `${NAME}` in a value stands for a declared secret. Absent beside `command`. */
  headers?: Record<string, string>;
  /**
   * Name of a connection, whose access token is sent as `Authorization`. Its secret is also in `required_secrets`, or in
   * `optional_secrets` for an optional server.
   */
  connection?: string;
  /** Program in the run's sandbox, which speaks the protocol over stdin and stdout. */
  command?: string;
  args?: string[];
  /** Further variables of `command`, with `${NAME}` as in `headers`. */
  env?: Record<string, string>;
  /** Names on the server. The model gets no other tools of it. @default - all */
  tools?: string[];
  /** The author's claim that these tools change nothing: strict mode allows no others. */
  read_only: boolean;
  /** Whether a run continues without this server if it is unavailable. */
  optional: boolean;
  /** @default - `retry` if `read_only`, else `unknown` */
  interruption?: Interruption;
  /** @default - never */
  approval?: Approval | 'destructive';
};

/** An author's tool of a managed loop. */
export type CustomTool = {
  name: string;
  description: string;
  /** A shell command with `{{param}}` placeholders, which `tool-command.ts` fills in. */
  command: string;
  /** Present when the command has placeholders. */
  input_schema?: Record<string, unknown>;
  /** Its program stays for further calls, of this run and others. @default - each call starts one */
  reuse?: ProgramReuse;
  /** @default - `retry` if the command calls another agent, else `unknown` */
  interruption?: Interruption;
  /** @default - never */
  approval?: Approval;
};

/**
 * Maximum length of a chain of calls, regardless of manifest and caller: one transaction counts a call at every level.
 */
export const MAX_HOPS = 10;

/** The member `manifest`: orchestration of calls (`docs/interface/manifest.md#orchestration-section`). */
export type Orchestration = {
  manifest_version: 1;
  /** Pinned versions without duplicates. */
  dependencies: Dependency[];
  /** At least 1 if there are dependencies. */
  max_hops?: number;
  /** Timeout of the whole call in milliseconds. Present if there are dependencies. */
  timeout_ms?: number;
  /** Budget of each dependency call. */
  per_call_downstream_cap: number;
  /** Only for managed-loop agents with dependencies. */
  orchestration_mode?: 'strict' | 'flexible';
  min_required_hops?: number;
  region?: string;
  visibility?: 'public' | 'private';
  /** Smallest budget with which other agents may call this agent as a dependency. */
  recommended_min_caller_budget?: number;
  /** Maximum total cost of the calls below one run, in cents. */
  downstream_spend_cap?: number;
};

/**
 * An additional file of a skill. The contents of a large skill are stored beside its definition
 * (`core/agents/skills/skill-contents.ts`), and its files have a `sha256` instead of a `content`.
 */
export type SkillFile = {
  path: string;
  /** Text, or base64 if `encoding` says so. */
  content?: string;
  /** Bytes of the file: of a text as UTF-8, else decoded. */
  size: number;
  encoding?: 'base64';
  /** Hex, of the bytes of the file. */
  sha256?: string;
};

/** A file of a skill with its content. */
export type WholeSkillFile = Omit<SkillFile, 'sha256'> & { content: string };
