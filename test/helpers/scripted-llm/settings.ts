import models from '#core/models/models.json' with { type: 'json' };
import type { ModelFacts } from '#core/ports/model-table.ts';

/** Models that always think. Only Claude Sonnet 5.5 can be limited to thinking between tool calls. */
const ALWAYS_THINKS = /^claude-(fable-5|opus-5-5|sonnet-5-5)/;

/**
 * Returns why a provider would refuse the settings of a request, in its own words. For models outside the platform's
 * table, only settings that no model of the provider supports are refused.
 */
// biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs.
export function settingProblem(provider: string, model: string, body: any): string | undefined {
  const facts: ModelFacts = (models as Record<string, ModelFacts>)[model] ?? {};
  switch (provider) {
    case 'anthropic':
      return anthropicProblem(model, facts, body);
    case 'openai':
      return openaiProblem(facts, body);
    case 'gemini':
      return geminiProblem(facts, body);
    default:
      return undefined;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
function anthropicProblem(model: string, { effort, temperature }: ModelFacts, body: any): string | undefined {
  const type = body.thinking?.type;
  const told = body.output_config?.effort;
  if (body.seed !== undefined) return 'seed: Extra inputs are not permitted';
  if (body.temperature !== undefined && temperature === 'never')
    return `temperature: Sampling parameters are not supported by ${model}.`;
  if (body.temperature > 1) return 'temperature: range: 0..1';
  if (body.temperature !== undefined && body.temperature !== 1 && (type === 'adaptive' || type === 'enabled'))
    return '`temperature` may only be set to 1 when thinking is enabled.';
  if (body.stop_sequences?.some((text: string) => text.trim() === ''))
    return 'stop_sequences: each stop sequence must contain non-whitespace';
  if (told !== undefined && effort !== undefined && (told === 'none' || !effort.includes(told)))
    return `output_config.effort: '${told}' is not supported by ${model}.`;
  if ((type === 'disabled' || type === 'enabled') && ALWAYS_THINKS.test(model))
    return `thinking.type: '${type}' is not supported by ${model}.`;
  if (type === 'between_tools' && (model !== 'claude-sonnet-5-5' || told === 'max' || told === 'xhigh'))
    return `thinking.type: 'between_tools' is not supported by ${model} at this effort.`;
  return undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
function openaiProblem({ effort, temperature }: ModelFacts, body: any): string | undefined {
  const told = body.reasoning?.effort;
  const unknown = ['seed', 'stop'].find((name) => body[name] !== undefined);
  if (unknown !== undefined) return `Unknown parameter: '${unknown}'.`;
  if (body.parallel_tool_calls !== undefined && !(body.tools?.length > 0))
    return "'parallel_tool_calls' is only allowed when 'tools' are specified.";
  if (told !== undefined && effort?.length === 0)
    return "Unsupported parameter: 'reasoning.effort' is not supported with this model.";
  if (told !== undefined && effort !== undefined && !effort.includes(told))
    return `Unsupported value: 'reasoning.effort' does not support '${told}' with this model.`;
  const takes = temperature ?? 'always';
  if (body.temperature !== undefined && (takes === 'never' || (takes === 'without_thought' && told !== 'none')))
    return "Unsupported parameter: 'temperature' is not supported with this model.";
  return undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
function geminiProblem({ effort }: ModelFacts, body: any): string | undefined {
  const level = body.generationConfig?.thinkingConfig?.thinkingLevel;
  if (level === undefined || effort === undefined || effort.includes(level)) return undefined;
  return effort.length === 0
    ? 'Thinking level is not supported for this model.'
    : `Thinking level ${level} is not supported for this model.`;
}
