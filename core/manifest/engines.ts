import type { LlmProvider } from '#core/ports/llm.ts';
import type { AgentDefinition, AgentType, ExecutionEngine } from './definition.ts';

/** Properties of an engine that other code needs; `core/execution/engines` runs it. */
export interface EngineTraits {
  /** Name of its agents in messages. */
  readonly title: string;
  /** Whether calls, schedules and services can run it. */
  readonly isRun: boolean;
  /** The agent type that has this engine by default. */
  readonly type: AgentType;
  /** Manifest member that selects this engine for any type. @default - none */
  readonly member?: string;
  /** Whether runs have a sandbox. Without one, a run has no secrets, variables, files, compute time or sub-calls. */
  readonly hasSandbox: boolean;
  /** Whether the author uploads a program; without it, no version can run. */
  readonly hasProgram: boolean;
  /** Whether the model works in turns and has tools. */
  readonly hasLoop: boolean;
  /** Whether the platform asks the models; otherwise the program does, with its own keys. */
  readonly asksModels: boolean;
  /** Whether the manifest needs a prompt. */
  readonly needsPrompt: boolean;
  /** Whether `{{placeholders}}` in the prompt are filled from the input. */
  readonly hasPlaceholders: boolean;
  /** Whether it can run as an always-on service. */
  readonly canBeService: boolean;
  /** Limit of the plan that bounds the duration of a run. */
  readonly timeLimit: 'timeout_seconds' | 'sandbox_timeout_seconds';
  /** The daily quota and the concurrency limit that a run counts against. */
  readonly quota: 'llm' | 'sandbox';
  /** Providers of a manifest that names none. */
  readonly defaultProviders: readonly (LlmProvider | 'any')[];
}

/** Traits of each engine. */
export const ENGINES = {
  direct_llm: {
    title: 'prompt',
    isRun: true,
    type: 'prompt',
    hasSandbox: false,
    hasProgram: false,
    hasLoop: false,
    asksModels: true,
    needsPrompt: true,
    hasPlaceholders: true,
    canBeService: false,
    timeLimit: 'timeout_seconds',
    quota: 'llm',
    defaultProviders: ['any'],
  },
  code_runtime: {
    title: 'program',
    isRun: true,
    type: 'tool',
    member: 'runtime',
    hasSandbox: true,
    hasProgram: true,
    hasLoop: false,
    asksModels: false,
    needsPrompt: false,
    hasPlaceholders: false,
    canBeService: true,
    timeLimit: 'sandbox_timeout_seconds',
    quota: 'sandbox',
    defaultProviders: ['any'],
  },
  managed_loop: {
    title: 'loop',
    isRun: true,
    type: 'agent',
    member: 'loop',
    hasSandbox: true,
    hasProgram: false,
    hasLoop: true,
    asksModels: true,
    needsPrompt: true,
    hasPlaceholders: false,
    canBeService: true,
    timeLimit: 'sandbox_timeout_seconds',
    quota: 'sandbox',
    defaultProviders: ['anthropic'],
  },
} as const satisfies Record<ExecutionEngine, EngineTraits>;

/** A skill is given to other agents and never runs itself. */
const SKILL: EngineTraits = {
  title: 'skill',
  isRun: false,
  type: 'skill',
  hasSandbox: false,
  hasProgram: false,
  hasLoop: false,
  asksModels: false,
  needsPrompt: true,
  hasPlaceholders: false,
  canBeService: false,
  timeLimit: 'timeout_seconds',
  quota: 'llm',
  defaultProviders: ['any'],
};

export const EXECUTION_ENGINES = Object.keys(ENGINES) as ExecutionEngine[];

/** Returns the traits of an engine; `null` means a skill. */
export const traitsOf = (engine: ExecutionEngine | null): EngineTraits => (engine === null ? SKILL : ENGINES[engine]);

/** Returns the traits of an agent version's engine. */
export const engineTraits = (agent: {
  readonly definition: { readonly execution_engine: ExecutionEngine | null };
}): EngineTraits => traitsOf(agent.definition.execution_engine);

/**
 * Whether a version can run only with an uploaded bundle: a program always, a loop if its manifest has `bundle`, for
 * files and dependencies of its tools.
 */
export function needsBundle(definition: Pick<AgentDefinition, 'execution_engine' | 'bundle'>): boolean {
  const { hasProgram, hasLoop } = traitsOf(definition.execution_engine);
  return hasProgram || (hasLoop && definition.bundle !== null);
}

/**
 * Returns the engine that a manifest names in its member `runtime` or `loop`, or else the default of its type. `null` for a
 * skill.
 */
export function engineOf(type: AgentType, hasMember: (member: string) => boolean): ExecutionEngine | null {
  if (type === 'skill') return null;
  const rows = EXECUTION_ENGINES.map((engine) => ({ engine, traits: traitsOf(engine) }));
  const chosen =
    rows.find(({ traits }) => traits.member !== undefined && hasMember(traits.member)) ??
    rows.find(({ traits }) => traits.type === type);
  return chosen!.engine;
}
