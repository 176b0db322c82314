import * as z from 'zod';
import { countText } from '#core/base/size-text.ts';
import { type AgentSettings, type ModelSettings, SETTING_EFFORTS, SETTINGS } from '#core/models/model-settings.ts';
import { type BuiltInProvider, isCompatible, isLlmProvider, LLM_PROVIDERS } from '#core/ports/llm.ts';
import type { AgentDefinition } from '../definition.ts';
import { traitsOf } from '../engines.ts';

const MAX_SEED = 2 ** 31 - 1;
const MAX_OUTPUT_TOKENS = 1_000_000;
const TOKENS_RULE = `must be a whole number from 1 to ${countText(MAX_OUTPUT_TOKENS)}`;
const TEMPERATURE_RULE = 'must be a number from 0 to 2';
const SEED_RULE = `must be a whole number from 0 to ${countText(MAX_SEED)}`;
const STOP_RULE = 'must be a text of 1 to 100 characters that are not all spaces';

/** Shapes of the settings; a message completes "<setting> ...". */
const SHAPES = {
  effort: z.enum(SETTING_EFFORTS, `must be one of ${SETTING_EFFORTS.join(', ')}`),
  max_output_tokens: z.int(TOKENS_RULE).min(1, TOKENS_RULE).max(MAX_OUTPUT_TOKENS, TOKENS_RULE),
  temperature: z.number(TEMPERATURE_RULE).min(0, TEMPERATURE_RULE).max(2, TEMPERATURE_RULE),
  stop: z
    .array(z.string(STOP_RULE).max(100, STOP_RULE).regex(/\S/, STOP_RULE), 'must be an array of texts')
    .min(1, 'must have at least one text')
    .max(4, 'must be at most 4'),
  seed: z.int(SEED_RULE).min(0, SEED_RULE).max(MAX_SEED, SEED_RULE),
  parallel_tool_calls: z.boolean('must be true or false'),
} satisfies { [Name in keyof ModelSettings]-?: z.ZodType };

const settings = () =>
  z.object(
    Object.fromEntries(Object.entries(SHAPES).map(([name, shape]) => [name, shape.nullish()])) as {
      [Name in keyof typeof SHAPES]: z.ZodOptional<z.ZodNullable<(typeof SHAPES)[Name]>>;
    },
    'must be an object',
  );

/** Shape of the member `model_settings` of a manifest; `null` counts as absent. */
export const modelSettingsShape = settings()
  .extend({
    ...(Object.fromEntries(LLM_PROVIDERS.map((provider) => [provider, settings().nullish()])) as {
      [Provider in BuiltInProvider]: z.ZodOptional<z.ZodNullable<ReturnType<typeof settings>>>;
    }),
    callers_may_set: z.array(z.enum(SETTINGS, `must be one of ${SETTINGS.join(', ')}`), 'must be an array').nullish(),
  })
  .catchall(z.unknown())
  .superRefine((given, { addIssue }) => {
    for (const [name, value] of Object.entries(given)) {
      if (!isCompatible(name) || value == null) continue;
      for (const { path, message } of settings().safeParse(value).error?.issues ?? []) {
        addIssue({ code: 'custom', path: [name, ...path], message });
      }
    }
  });

/** Shape of a caller's settings; unknown settings are refused. */
export const callerSettingsShape = z
  .strictObject(SHAPES, {
    error: ({ code, keys }) =>
      code === 'unrecognized_keys'
        ? `has no setting "${String(keys?.[0]).slice(0, 40)}"; those are ${SETTINGS.join(', ')}`
        : 'must be an object',
  })
  .partial();

/** Removes absent members. */
export function agentSettingsOf(given: z.output<typeof modelSettingsShape>): AgentSettings {
  const present = (object: object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value != null));
  const members = Object.entries(present(given)).flatMap(([name, value]) => {
    if (isLlmProvider(name)) return [[name, settings().parse(present(value as object))]];
    return name in modelSettingsShape.shape ? [[name, value]] : [];
  });
  return Object.fromEntries(members);
}

/** Returns warnings about settings that have no effect on any model of the agent. */
export function settingWarnings({
  execution_engine: engine,
  supported_providers: supported,
  model_settings: own,
}: Pick<AgentDefinition, 'execution_engine' | 'supported_providers' | 'model_settings'>): string[] {
  if (own == null) return [];
  const { asksModels, hasLoop } = traitsOf(engine);
  if (!asksModels) {
    return ['model_settings have no effect: only prompts and loops are asked with them.'];
  }
  const named = Object.keys(own).filter(isLlmProvider);
  const idle = named.filter((provider) => !supported.includes('any') && !supported.includes(provider));
  const noTools =
    !hasLoop &&
    [own, ...named.map((provider) => own[provider])].some((settings) => settings?.parallel_tool_calls !== undefined);
  return [
    ...idle.map((provider) => `model_settings.${provider} has no effect: the agent does not run with ${provider}.`),
    ...(noTools ? ['model_settings.parallel_tool_calls has no effect: a prompt has no tools.'] : []),
  ];
}
