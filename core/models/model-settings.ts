import { EFFORTS, type Effort, LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { PROVIDERS } from './providers.ts';

/** What an author may say about thinking (`docs/models.md#settings`). */
export const SETTING_EFFORTS = ['none', 'low', 'medium', 'high', 'max'] as const satisfies readonly Effort[];

/** How a model is asked (`docs/models.md#settings`). */
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

/** Settings of an agent: those below the name of a provider come before the others, for models of that provider. */
export type AgentSettings = ModelSettings & { readonly [Provider in LlmProvider]?: ModelSettings } & {
  /** Those that a call may set. @default - none */
  readonly callers_may_set?: readonly SettingName[];
};

/** The caller's, the provider's, the agent's: the first that has a setting. */
export const settingsFor = (
  provider: LlmProvider,
  own: AgentSettings | null | undefined,
  callers?: ModelSettings,
): ModelSettings => {
  const common = Object.entries(own ?? {}).filter(([name]) => !NO_SETTINGS.has(name));
  return { ...Object.fromEntries(common), ...own?.[provider], ...callers };
};

/** Members of {@link AgentSettings} beside the settings for all providers. */
const NO_SETTINGS: ReadonlySet<string> = new Set(['callers_may_set', ...LLM_PROVIDERS]);

/** The part of a request that settings decide, and what of them the model does not take: sentences. */
export interface FittedSettings {
  readonly request: Pick<LlmRequest, 'effort' | 'temperature' | 'stop' | 'seed' | 'parallelToolCalls'>;
  readonly warnings: readonly string[];
}

/**
 * Settings as a model takes them: an effort that it does not have becomes the next lower one, and what it refuses is left
 * out. Of a hosted model that is not in the table, nothing is known: a newer one refuses more than it takes.
 */
export function fitSettings(
  { provider, model }: { readonly provider: LlmProvider; readonly model: string },
  facts: ModelFacts,
  { effort, temperature, stop, seed, parallel_tool_calls }: ModelSettings,
): FittedSettings {
  const warnings: string[] = [];
  const without = (name: SettingName, why = ''): undefined =>
    void warnings.push(`${model} takes no ${name}${why}: it is left out.`);
  const { unknownModels, ...support } = PROVIDERS[provider].settings;
  const fitted = effort && nearestEffort(effort, facts.effort ?? unknownModels.efforts);
  if (effort !== undefined && fitted === undefined && effort !== 'none') without('effort');
  if (fitted !== undefined && fitted !== effort) {
    warnings.push(`${model} takes no effort "${effort}": it is asked with "${fitted}".`);
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

/** The one that was asked for, else the next lower one, else the lowest. */
function nearestEffort(wanted: Effort, taken: readonly Effort[]): Effort | undefined {
  const rank = (effort: Effort): number => EFFORTS.indexOf(effort);
  const sorted = taken.toSorted((a, b) => rank(a) - rank(b));
  return sorted.findLast((effort) => rank(effort) <= rank(wanted)) ?? sorted[0];
}
