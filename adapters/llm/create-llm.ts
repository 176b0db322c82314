import type { Config } from '#core/base/config.ts';
import { PROVIDERS } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isLlmFailure, type Llm, type LlmRequest } from '#core/ports/llm.ts';
import { createSdkTurns, optionsOf } from './ai-sdk.ts';
import { askDirectly, isDirect } from './direct/direct.ts';
import { createEndpointResolver, type WireConfig } from './endpoints.ts';
import { BrokenMeter } from './partial-usage.ts';
import { isPlatformRefused, messageIn, toPlatformError } from './provider-error.ts';
import { type ChosenForm, SchemaForms } from './schema-for.ts';
import { answerOf, type RawTurn } from './turn.ts';

type LlmConfig = WireConfig & Pick<Config, 'ollamaSchemas'>;

/**
 * {@link Llm} over the providers' APIs: the usual ones by requests of our own, which cost a fraction, all others by the
 * AI SDK. Both ways give the same results. Requests are sent once: `SteadyLlm` retries them.
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
      const request: LlmRequest = {
        ...given,
        onSign(sign) {
          if (sign === 'received') meter.hasReceived = true;
          given.onSign?.(sign);
        },
      };
      const form = schemaForm(schemaForms, request);
      try {
        const ask = goesDirectly(request, form) ? askDirectly : askSdk;
        const turn = await ask(request, wireOf(request), form, meter);
        return answerOf(turn, request.provider, form?.place);
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

/** The SDK would otherwise look for a key in the environment. */
function requireKey({ provider, apiKey, transport }: LlmRequest): void {
  if (apiKey || PROVIDERS[provider].key === null || transport?.via === 'bedrock') return;
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
