import type { AgentSettings } from '#core/models/model-settings.ts';
import type { LlmProvider } from '#core/ports/llm.ts';

export type AgentType = 'prompt' | 'tool' | 'agent' | 'skill';
export type ExecutionEngine = 'direct_llm' | 'code_runtime' | 'managed_loop';

/**
 * The manifest as it is published (`docs/interface/manifest.md`): with all defaults, and with older forms
 * converted to the current one. Checking a definition again returns the same definition.
 */
export type AgentDefinition = {
  /** 2-50 lower-case letters, digits, single hyphens; unique in its workspace. */
  readonly name: string;
  /** `code` and `agentic` have become `tool` and `agent`. */
  readonly type: AgentType;
  readonly run_mode: 'on_demand' | 'always_on';
  /** Follows from `runtime` or `loop`, else from the type; null for a skill, which is not run. */
  readonly execution_engine: ExecutionEngine | null;
  /** Whether other agents may call it. */
  readonly callable: boolean;
  readonly description: string;
  /** Prompt template, instructions of the loop, or body of SKILL.md; null where the engine needs none. */
  readonly prompt: string | null;
  /** Only for code_runtime. Members beside `command` are kept unchanged. */
  readonly runtime: { command?: string; [member: string]: unknown } | null;
  /** Only for managed_loop; custom tools are in `custom_tools`. */
  readonly loop: LoopLimits | null;
  /** Only for managed_loop. */
  readonly custom_tools: CustomTool[];
  /** JSON Schema. */
  readonly input_schema: Record<string, unknown> | null;
  /** JSON Schema. */
  readonly output_schema: Record<string, unknown> | null;
  /** Whether calls may have files; null, and absent in older definitions: as `file-rules.ts` finds it. */
  readonly accepts_files?: boolean | null;
  /** Media types such as `image/*`, and extensions such as `.pdf`; null as above. */
  readonly accept?: string[] | null;
  /** Of one call; null as above. */
  readonly max_files?: number | null;
  /** Not empty; an agent's is `['anthropic']`. */
  readonly supported_providers: (LlmProvider | 'any')[];
  /** Provider -> model id. */
  readonly default_models: Record<string, string>;
  /** Name of the endpoint; `run` works for every agent. */
  readonly default_endpoint: string;
  /** 0-300; 0, no limit of its own, only for always_on. */
  readonly timeout_seconds: number;
  /**
   * Only for code_runtime: a run that loses its sandbox begins again, once (`docs/interface/sandbox.md#interruptions`).
   * @default false, also in older definitions
   */
  readonly retry_on_interruption?: boolean;
  readonly tags: string[];
  readonly is_public: boolean;
  /** `skill`, `org/skill` or `org/skill@v1`. */
  readonly default_skills: string[];
  /** Callers cannot override `default_skills`. */
  readonly skills_locked: boolean;
  /** Names in the vault; a run without one of them is refused. */
  readonly required_secrets: string[];
  /** Names in the vault; a run gets those that exist. Never also in `required_secrets`. */
  readonly optional_secrets: string[];
  /** Path in the bundle. */
  readonly entrypoint: string | null;
  /** Git address, for local execution. */
  readonly source_url: string | null;
  /** Requirement, for local execution. */
  readonly pip_package: string | null;
  /** Shell command; `runtime.command` comes before it. */
  readonly run_command: string | null;
  /** Where the agent is served elsewhere. An address under `.internal` means "none" and becomes null. */
  readonly url: string | null;
  /** Glob patterns for the client that packs the bundle. */
  readonly bundle: { include: string[]; exclude: string[] } | null;
  /** How it calls other agents. */
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
  /** How models are asked. @default - as the platform does by itself */
  readonly model_settings?: AgentSettings | null;
  /** Task name -> model id, with the key `default`. */
  readonly model_tasks: Record<string, string> | null;
  /** Whether it uses the SDK. */
  readonly sdk_compatible: boolean;
  /** Credits per call in cents; null: free. */
  readonly price_per_call_cents: number | null;
};

/** An agent version that another version may call. */
export type Dependency = {
  /** `org/agent`. */
  id: string;
  /** An exact version: `v1`. */
  version: string;
};

/** The platform's tools of a managed loop, without `submit_result`, which ends it. */
export const LOOP_TOOLS = ['bash', 'read_file', 'write_file', 'list_files'] as const;
export type LoopTool = (typeof LOOP_TOOLS)[number];

/** A tool of an MCP server, as the model gets it. */
export type McpToolName = `mcp__${string}`;

export type LoopLimits = {
  /** 1-50. */
  max_turns: number;
  /**
   * Tools of the platform that the loop may use, beside its custom tools; if it names tools of MCP servers, only those of them.
   * @default - all
   */
  tools?: readonly (LoopTool | McpToolName)[] | null;
  /** Up to 8. Absent if there are none. */
  mcp_servers?: readonly McpServer[] | null;
  /** For the requests to models of one run, in US dollars. @default - no limit */
  max_cost_usd?: number | null;
  [member: string]: unknown;
};

/** A server of the Model Context Protocol whose tools a loop may use (`docs/interface/mcp-servers.md`). */
export type McpServer = {
  /** Lower-case letters, digits, single hyphens; part of the names of its tools. */
  name: string;
  url: string;
  /** `${NAME}` in a value stands for a declared secret. */
  headers: Record<string, string>;
  /** Names on the server: no others are offered. */
  tools: string[];
  /** The author says that these tools change nothing: strict mode has no others. */
  read_only: boolean;
  /** A run goes on without this server when it cannot be used. */
  optional: boolean;
};

/** A tool of a managed loop that the author wrote. */
export type CustomTool = {
  name: string;
  description: string;
  /** A shell command with `{{param}}` placeholders, which `tool-command.ts` fills in. */
  command: string;
  /** Present when the command has placeholders. */
  input_schema?: Record<string, unknown>;
};

/** No chain of calls is longer, whatever a manifest or a caller allows: one transaction counts a call at every level. */
export const MAX_HOPS = 10;

/** The member `manifest`: how an agent calls others (`docs/interface/manifest.md#orchestration-section`). */
export type Orchestration = {
  manifest_version: 1;
  /** Pinned, each once. */
  dependencies: Dependency[];
  /** At least 1 when there are dependencies. */
  max_hops?: number;
  /** Milliseconds, of the whole call. Present when there are dependencies. */
  timeout_ms?: number;
  /** Budget that each dependency call gets. */
  per_call_downstream_cap: number;
  /** Only for managed-loop agents with dependencies. */
  orchestration_mode?: 'strict' | 'flexible';
  min_required_hops?: number;
  region?: string;
  visibility?: 'public' | 'private';
  /** Of a dependency call of this agent: the smallest budget with which it is made. */
  recommended_min_caller_budget?: number;
  /** What the calls below one run may cost together, in cents. */
  downstream_spend_cap?: number;
};

/** A file beside SKILL.md. */
export type SkillFile = {
  path: string;
  content: string;
  /** Bytes of `content` as UTF-8. */
  size: number;
};
