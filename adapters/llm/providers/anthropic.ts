import type { Members } from '../direct/members.ts';
import type { Repair } from '../http-fetch.ts';
import { type StrictDialect, strictSchema } from '../strict-schema.ts';
import { keyAliases } from '../tool-schema.ts';
import { forcedTool, MESSAGE_FORM, type ProviderApi } from './api.ts';
import { sdkOptions } from './sdk-options.ts';

/**
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs. The API accepts 24 optional properties, but
 * its compiler fails at about half as many.
 */
const STRICT: StrictDialect = {
  keywords: new Set(),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid']),
  requiresAll: false,
  allowsCycles: false,
  maxOptional: 10,
  maxUnions: 16,
  maxProperties: 1000,
  maxEnumValues: 1000,
  maxDepth: 20,
};

/** https://platform.claude.com/docs/en/api/messages, `tools`; also in output schemas. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;

/**
 * Whether a model always thinks and rejects a forced tool (https://platform.claude.com/docs/en/about-claude/models).
 */
const isForcedToolRefused = (model: string): boolean => /claude-(sonnet|opus)-5-5|claude-fable-5-[12]/.test(model);

const NO_USAGE = { input_tokens: 0, output_tokens: 0 };

/** Adds the counts that the SDK requires, and that some gateways leave out. */
const withUsage: Repair = (value) => {
  switch (value.type) {
    case 'message':
      return { usage: NO_USAGE, ...value };
    case 'message_start':
      return { ...value, message: { usage: NO_USAGE, ...(value.message as Members) } };
    case 'message_delta':
      return { usage: { output_tokens: 0 }, ...value };
    default:
      return value;
  }
};

export const anthropic: ProviderApi = {
  async load() {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    return ({ model, transport }, wire) =>
      createAnthropic(sdkOptions(wire, transport?.via === 'gateway' ? withUsage : undefined))(model);
  },
  // Prevents a warning of the SDK.
  hasJsonMode: false,
  declaresLooseTools: false,
  takesParts: true,
  marksCache: true,
  propertyName: PROPERTY_NAME,
  strictTools: STRICT,
  answerForms(model, schema) {
    if (keyAliases(PROPERTY_NAME)(schema).size > 0) return [MESSAGE_FORM];
    const strict = strictSchema(STRICT, schema);
    const tool = { kind: 'tool', schema } as const;
    if (strict === undefined) return [tool, MESSAGE_FORM];
    const native = { kind: 'native', schema: strict } as const;
    // If no tool can be forced, the SDK would turn the tool form back into the native form.
    return isForcedToolRefused(model) ? [native, MESSAGE_FORM] : [native, tool, MESSAGE_FORM];
  },
  onlyTool(tool, request) {
    if (request.canBeForced === true) return forcedTool(tool, request);
    // https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    const others = (request.tools ?? []).filter(({ name }) => name !== tool);
    const toolChanges = others.map(({ name }) => ({ type: 'tool_removal', toolName: name }));
    if (toolChanges.length === 0) return { messages: [] };
    return { messages: [{ role: 'system', content: '', providerOptions: { anthropic: { toolChanges } } }] };
  },
  options({ effort, thoughts, parallelToolCalls }, { toolChoice }, form) {
    const isByTool = form?.kind === 'tool';
    // Thinking cannot be combined with a forced tool call.
    const isForced = isByTool || toolChoice !== undefined;
    return {
      anthropic: {
        // The API has no "none" effort.
        ...(effort === 'none' ? { thinking: { type: 'disabled' } } : effort && { effort }),
        ...(thoughts && effort !== 'none' && !isForced && { thinking: { type: 'adaptive', display: 'summarized' } }),
        ...(parallelToolCalls === false && { disableParallelToolUse: true }),
        ...(isByTool && { structuredOutputMode: 'jsonTool' }),
      },
    };
  },
};
