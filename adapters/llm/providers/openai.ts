import { type StrictDialect, strictSchema } from '../strict-schema.ts';
import { MESSAGE_FORM, type ProviderApi } from './api.ts';
import { sdkOptions } from './sdk-options.ts';

/** https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas */
const STRICT: StrictDialect = {
  keywords: new Set([
    'minimum',
    'maximum',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'multipleOf',
    'pattern',
    'minItems',
    'maxItems',
  ]),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']),
  requiresAll: true,
  allowsCycles: true,
  maxOptional: 0,
  maxUnions: 5000,
  maxProperties: 5000,
  maxEnumValues: 1000,
  maxDepth: 10,
};

export const openai: ProviderApi = {
  async load() {
    const { createOpenAI } = await import('@ai-sdk/openai');
    return ({ model }, wire) => createOpenAI(sdkOptions(wire))(model);
  },
  hasJsonMode: true,
  // The API's default rejects schemas with optional members, which authors use.
  declaresLooseTools: true,
  takesParts: true,
  marksCache: false,
  strictTools: STRICT,
  answerForms(_model, schema) {
    const strict = strictSchema(STRICT, schema);
    const guide = { kind: 'guide', schema } as const;
    return strict === undefined ? [guide, MESSAGE_FORM] : [{ kind: 'native', schema: strict }, guide, MESSAGE_FORM];
  },
  onlyTool: (tool, { canBeForced }) =>
    canBeForced === false ? { messages: [] } : { messages: [], allowedTools: { toolNames: [tool], mode: 'required' } },
  options: ({ effort, parallelToolCalls, cache }, { allowedTools }, form) => ({
    openai: {
      // Otherwise OpenAI stores conversations for 30 days, and the SDK requests summaries, which some accounts may not
      // use.
      store: false,
      ...(effort && { reasoningEffort: effort, reasoningSummary: null }),
      ...(form?.kind === 'guide' && { strictJsonSchema: false }),
      ...(cache && { promptCacheKey: cache.key }),
      ...(allowedTools && { allowedTools }),
      ...(parallelToolCalls !== undefined && { parallelToolCalls }),
    },
  }),
};
