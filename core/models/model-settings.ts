import { EFFORTS, type Effort, isLlmProvider, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { rowOf } from './providers.ts';

/** Effort values that an author may set (`docs/models.md#settings`). */
export const SETTING_EFFORTS = ['none', 'low', 'medium', 'high', 'max'] as const satisfies readonly Effort[];

/** Settings of requests to a model (`docs/models.md#settings`). */
export interface ModelSettings {
  readonly effort?: (typeof SETTING_EFFORTS)[number];
  /** Thoughts included. */
  readonly max_output_tokens?: number;
  readonly temperature?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  readonly parallel_tool_calls?: boolean;
}

export const SETTINGS = [
  'effort',
  'max_output_tokens',
  'temperature',
  'stop',
  'seed',
  'parallel_tool_calls',
] as const satisfies readonly (keyof ModelSettings)[];
export type SettingName = (typeof SETTINGS)[number];

/** Settings of an agent. Settings under a provider's name override the general ones for its models. */
export type AgentSettings = ModelSettings & { readonly [Provider in LlmProvider]?: ModelSettings } & {
  /** Settings that a call may override. @default - none */
  readonly callers_may_set?: readonly SettingName[];
};

/** Merges settings: the caller's override the provider's, which override the agent's general ones. */
export const settingsFor = (
  provider: LlmProvider,
  own: AgentSettings | null | undefined,
  callers?: ModelSettings,
): ModelSettings => {
  const common = Object.entries(own ?? {}).filter(([name]) => name !== 'callers_may_set' && !isLlmProvider(name));
  return { ...Object.fromEntries(common), ...own?.[provider], ...callers };
};

/** Settings of a request, and sentences about those that the model does not support. */
export interface FittedSettings {
  readonly request: Pick<LlmRequest, 'effort' | 'temperature' | 'stop' | 'seed' | 'parallelToolCalls'>;
  readonly warnings: readonly string[];
}

/**
 * Adapts settings to a model: an unsupported effort becomes the next lower one, and other unsupported settings are
 * omitted. A hosted model that is not in the table has no known facts; newer models refuse more settings than they
 * accept.
 */
export function fitSettings(
  { provider, model }: { readonly provider: LlmProvider; readonly model: string },
  facts: ModelFacts,
  { effort, temperature, stop, seed, parallel_tool_calls }: ModelSettings,
): FittedSettings {
  const warnings: string[] = [];
  const without = (name: SettingName, why = ''): undefined =>
    void warnings.push(`${model} does not support ${name}${why}: it is omitted.`);
  const { unknownModels, ...support } = rowOf(provider).settings;
  const fitted = effort && nearestEffort(effort, facts.effort ?? unknownModels.efforts);
  if (effort !== undefined && fitted === undefined && effort !== 'none') without('effort');
  if (fitted !== undefined && fitted !== effort) {
    warnings.push(`${model} does not support effort "${effort}": "${fitted}" is used.`);
  }
  const takes = facts.temperature ?? unknownModels.temperature;
  const isTaken = takes === 'always' || (takes === 'without_thought' && fitted === 'none');
  const why = takes === 'without_thought' ? ' unless its effort is "none"' : '';
  return {
    request: {
      ...(fitted && { effort: fitted }),
      ...(temperature !== undefined && (isTaken ? { temperature } : without('temperature', why))),
      ...(stop !== undefined && (support.stop ? { stop } : without('stop'))),
      ...(seed !== undefined && (support.seed ? { seed } : without('seed'))),
      ...(parallel_tool_calls !== undefined &&
        (support.parallelToolCalls ? { parallelToolCalls: parallel_tool_calls } : without('parallel_tool_calls'))),
    },
    warnings,
  };
}

/** Returns the requested effort, else the next lower one, else the lowest. */
function nearestEffort(wanted: Effort, taken: readonly Effort[]): Effort | undefined {
  const rank = (effort: Effort): number => EFFORTS.indexOf(effort);
  const sorted = taken.toSorted((a, b) => rank(a) - rank(b));
  return sorted.findLast((effort) => rank(effort) <= rank(wanted)) ?? sorted[0];
}
