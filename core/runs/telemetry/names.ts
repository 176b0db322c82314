/**
 * Names of the OpenTelemetry GenAI semantic conventions v0.1.0 (open-telemetry/semantic-conventions-genai, all of them in
 * development). This is the only file that has them: a later version changes this file and the golden files of the tests.
 */
export const CONVENTIONS = '0.1.0';

export const OPERATIONS = { agent: 'invoke_agent', chat: 'chat', tool: 'execute_tool' } as const;

export const GEN_AI = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  /** Internal `invoke_agent` spans have no id, version, provider or tokens of the cache since v0.1.0. */
  agent: 'gen_ai.agent.name',
  conversation: 'gen_ai.conversation.id',
  requestModel: 'gen_ai.request.model',
  finishReasons: 'gen_ai.response.finish_reasons',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  /** `cache_creation` before v0.1.0. */
  cacheWriteTokens: 'gen_ai.usage.cache_write.input_tokens',
  tool: 'gen_ai.tool.name',
  toolCallId: 'gen_ai.tool.call.id',
  toolType: 'gen_ai.tool.type',
  // Content, which is sent only if the settings say so.
  systemInstructions: 'gen_ai.system_instructions',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
} as const;

/** Attribute of the general conventions. */
export const ERROR_TYPE = 'error.type';

/** Names of the platform's own facts, which the conventions have no names for. */
export const OWN = {
  workspace: 'platform.workspace.id',
  run: 'platform.run.id',
  rootRun: 'platform.run.root_id',
  status: 'platform.run.status',
  trigger: 'platform.run.trigger',
  version: 'platform.agent.version',
  tenant: 'platform.tenant.id',
  schedule: 'platform.schedule.id',
  replayOf: 'platform.run.replay_of',
  costUsd: 'platform.cost_usd',
  isUnfinished: 'platform.unfinished',
  conventions: 'platform.gen_ai.conventions',
} as const;

/** Names of providers where the conventions differ from ours. Routes come first: they say who answers. */
const PROVIDERS: Readonly<Record<string, string>> = {
  bedrock: 'aws.bedrock',
  azure: 'azure.ai.openai',
  gemini: 'gcp.gemini',
};

/** Reasons where the conventions differ from ours. */
const FINISH_REASONS: Readonly<Record<string, string>> = { tool_calls: 'tool_call', window: 'length' };

export const finishReason = (reason: string): string => FINISH_REASONS[reason] ?? reason;

/** @param via The route of the request (`core/base/transports.ts`), if it is not the provider's own API. */
export const providerName = (provider: string, via?: unknown): string =>
  PROVIDERS[via as string] ?? PROVIDERS[provider] ?? provider.replace(/^openai-compatible:/, '');
