import type { LlmProvider } from '#core/ports/llm.ts';
import type { AgentType, ExecutionEngine } from './definition.ts';

/** What the platform has to know of an engine, outside the code that runs it (`core/execution/engines`). */
export interface EngineTraits {
  /** The agents it runs, in messages. */
  readonly title: string;
  /** Whether calls, schedules and services can run it. */
  readonly isRun: boolean;
  /** The agent type that has this engine by default. */
  readonly type: AgentType;
  /** The manifest member that chooses this engine for any type. @default - none does */
  readonly member?: string;
  /** Whether runs have a sandbox. Without one, a run has no secrets, variables, files, compute time or calls of its own. */
  readonly hasSandbox: boolean;
  /** Whether the author uploads a program, without which no version can run. */
  readonly hasProgram: boolean;
  /** Whether the model works in turns and has tools. */
  readonly hasLoop: boolean;
  /** Whether the platform asks the models; otherwise the program does, with keys of its own. */
  readonly asksModels: boolean;
  /** Whether the manifest needs a text for the model. */
  readonly needsPrompt: boolean;
  /** Whether `{{placeholders}}` in that text are filled from the input. */
  readonly hasPlaceholders: boolean;
  /** Whether it can be a service that is always on. */
  readonly canBeService: boolean;
  /** The limit of the plan that bounds a run's time. */
  readonly timeLimit: 'timeout_seconds' | 'sandbox_timeout_seconds';
  /** The daily quota and the concurrency limit that a run counts against. */
  readonly quota: 'llm' | 'sandbox';
  /** The providers of a manifest that names none. */
  readonly defaultProviders: readonly (LlmProvider | 'any')[];
}

/** One row for each engine. */
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

/** A skill is given to other agents and never run. */
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

/** The traits of an engine; `null` is the engine of a skill. */
export const traitsOf = (engine: ExecutionEngine | null): EngineTraits => (engine === null ? SKILL : ENGINES[engine]);

/** The traits of an agent version's engine. */
export const engineTraits = (agent: {
  readonly definition: { readonly execution_engine: ExecutionEngine | null };
}): EngineTraits => traitsOf(agent.definition.execution_engine);

/** The engine of a manifest: that of its member `runtime` or `loop`, else that of its type. `null` for a skill. */
export function engineOf(type: AgentType, hasMember: (member: string) => boolean): ExecutionEngine | null {
  if (type === 'skill') return null;
  const rows = EXECUTION_ENGINES.map((engine) => ({ engine, traits: traitsOf(engine) }));
  const chosen =
    rows.find(({ traits }) => traits.member !== undefined && hasMember(traits.member)) ??
    rows.find(({ traits }) => traits.type === type);
  return chosen!.engine;
}
