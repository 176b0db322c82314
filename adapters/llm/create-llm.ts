import type { Config } from '#core/base/config.ts';
import { rowOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isLlmFailure, type Llm, type LlmRequest } from '#core/ports/llm.ts';
import { createSdkTurns, optionsOf } from './ai-sdk.ts';
import { askDirectly, isDirect } from './direct/direct.ts';
import { createEndpointResolver, type WireConfig } from './endpoints.ts';
import { readable } from './incoming.ts';
import { acceptable, aliasesOf, sentTools } from './outgoing.ts';
import { BrokenMeter, estimatedUsage, sumOf } from './partial-usage.ts';
import { isPlatformRefused, messageIn, toPlatformError } from './provider-error.ts';
import { type ChosenForm, SchemaForms } from './schema-for.ts';
import { withoutAliases } from './tool-schema.ts';
import { answerOf, type RawTurn, type Turn } from './turn.ts';

type LlmConfig = WireConfig & Pick<Config, 'ollamaSchemas'>;

/**
 * {@link Llm} over the providers' APIs: the usual ones by requests of our own, which cost a fraction, all others by the
 * AI SDK. Both ways give the same results. Requests are sent once: `RetryingLlm` retries them.
 *
 * @param log Has the reason when a transport refuses the platform itself, which callers must not see.
 * @param goesDirectly Whether a request goes without the SDK.
 */
export function createLlm(config: LlmConfig, log?: Deps['log'], goesDirectly = isDirect): Llm {
  const wireOf = createEndpointResolver(config);
  const schemaForms = new SchemaForms(config);
  const askSdk = createSdkTurns(config);
  return {
    async generate(given) {
      given.signal.throwIfAborted();
      requireKey(given);
      const meter = new BrokenMeter();
      const asked = acceptable(given);
      const form = schemaForm(schemaForms, asked);
      const request: LlmRequest = {
        ...asked,
        tools: sentTools(asked.tools, form),
        onSign(sign) {
          if (sign === 'received') meter.hasReceived = true;
          given.onSign?.(sign);
        },
      };
      try {
        const turn = await continued(request, form, (part) =>
          (goesDirectly(part, form) ? askDirectly : askSdk)(part, wireOf(part), form, meter),
        );
        const answer = answerOf(readable(turn, request), request.provider, form?.place, (name, input) => {
          const tool = given.tools?.find((each) => each.name === name);
          return tool === undefined ? input : withoutAliases(input, aliasesOf(given, tool));
        });
        if (answer.usage.inputTokens > 0) return answer;
        const warnings = [...(answer.warnings ?? []), NOT_COUNTED];
        return { ...answer, usage: estimatedUsage(turn.content, optionsOf(request, form)), warnings };
      } catch (error) {
        const usage = meter.usageOf(error, () => optionsOf(request, form));
        if (usage !== undefined) request.onBroken?.(usage);
        request.signal.throwIfAborted();
        if (isPlatformRefused(error, request)) {
          const { message, responseBody } = error as { message?: string; responseBody?: string };
          log?.error('Amazon Bedrock refuses the platform', { problem: messageIn(responseBody) || message });
        }
        const failure = toPlatformError(error, request, { isSchemaNew: form?.weaken !== undefined });
        if (isLlmFailure(failure) && failure.isSchemaRefusal) form?.weaken?.();
        throw failure;
      }
    },
  };
}

const NOT_COUNTED = 'The answer came without a count of its tokens: they are estimated.';

/** Maximum number of pauses in one turn. */
const MAX_PAUSES = 10;

/**
 * Gets a model's whole turn. Anthropic may pause a long one: the same request with the turn so far continues it.
 */
async function continued(
  request: LlmRequest,
  form: ChosenForm | undefined,
  ask: (request: LlmRequest) => Promise<Turn>,
): Promise<Turn> {
  let turn = await ask(request);
  for (let pauses = 1; isPaused(turn) && pauses <= MAX_PAUSES; pauses++) {
    const { message } = answerOf(turn, request.provider, form?.place);
    const next = await ask({ ...request, messages: [...request.messages, message] });
    turn = { ...next, content: [...turn.content, ...next.content], usage: sumOf(turn.usage, next.usage) };
  }
  return turn;
}

/** Whether the provider paused a turn. One that calls tools is continued by their results instead. */
const isPaused = ({ content, finishReason }: Turn): boolean =>
  finishReason.raw === 'pause_turn' && content.length > 0 && !content.some(({ type }) => type === 'tool-call');

/** The SDK would otherwise look for a key in the environment. */
function requireKey({ provider, apiKey, transport }: LlmRequest): void {
  if (apiKey || rowOf(provider).key === null || transport?.via === 'bedrock') return;
  throw new Error(`a request to ${provider} needs a key`);
}

/** Returns this conversation's form of the answer's schema, or of the strict tool's parameters. */
function schemaForm(forms: SchemaForms, request: LlmRequest): ChosenForm | undefined {
  const { outputSchema, messages, tools = [], provider } = request;
  const turns = messages.flatMap((message) =>
    message.role === 'assistant' ? [message.raw as RawTurn | undefined] : [],
  );
  const before = turns.findLast((turn) => turn?.provider === provider)?.schemaPlace;
  if (outputSchema !== undefined) return forms.choose(request, outputSchema, 'answer', before);
  const strict = tools.find(({ isStrict }) => isStrict);
  return strict && forms.choose(request, strict.inputSchema, 'tool', before);
}
