import type { Json } from '#core/base/json.ts';
import { callerSettingsShape } from '#core/manifest/parsing/model-settings.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelSettings, SettingName } from '#core/models/model-settings.ts';
import { refuse } from './errors.ts';

type Body = { readonly [member: string]: Json };

/** Setting -> members of a request that set it. */
const PARAMETERS: { readonly [Name in SettingName]: readonly string[] } = {
  effort: ['reasoning_effort', 'reasoning.effort'],
  max_output_tokens: ['max_completion_tokens', 'max_tokens', 'max_output_tokens'],
  temperature: ['temperature'],
  stop: ['stop'],
  seed: ['seed'],
  parallel_tool_calls: ['parallel_tool_calls'],
};

const EFFORTS: { readonly [name: string]: string } = { minimal: 'low', xhigh: 'max' };

/**
 * Returns the settings of a request that the agent's author lets callers change. Others have no effect, as with other
 * servers of this wire: chat programs send them with each request. Throws INVALID_INPUT for a value that is none.
 */
export function settingsFor(agent: AgentVersion, body: Body): ModelSettings | undefined {
  const settings: Record<string, Json> = {};
  for (const name of agent.definition.model_settings?.callers_may_set ?? []) {
    const param = PARAMETERS[name].find((each) => valueAt(body, each) != null);
    if (param === undefined) continue;
    const value = adapted(name, valueAt(body, param)!);
    const { error } = callerSettingsShape.safeParse({ [name]: value });
    if (error !== undefined) refuse(param, `${error.issues[0]!.message}.`);
    settings[name] = value;
  }
  return Object.keys(settings).length === 0 ? undefined : (settings as ModelSettings);
}

function valueAt(body: Body, param: string): Json | undefined {
  const [first, second] = param.split('.') as [string, string?];
  const value = body[first];
  if (second === undefined) return value;
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value[second] : undefined;
}

function adapted(name: SettingName, value: Json): Json {
  if (name === 'stop' && typeof value === 'string') return [value];
  if (name === 'effort' && typeof value === 'string') return EFFORTS[value] ?? value;
  return value;
}
