import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { ProviderUrls } from '#core/models/providers/row.ts';
import { rowOf } from '#core/models/providers.ts';
import type { LlmRequest } from '#core/ports/llm.ts';
import { addressGuard } from './address-guard.ts';
import { createSender, type OutgoingRequest, type Send } from './send.ts';

export type WireConfig = ProviderUrls & Pick<Config, 'bedrockUrl' | 'outboundHosts'>;

/** Address of a request and the function that sends it. */
export interface ProviderEndpoint {
  readonly baseURL: string;
  readonly apiKey: string | undefined;
  readonly send: Send;
}

type Signer = (request: OutgoingRequest) => Promise<OutgoingRequest>;

/** Placeholder, because the SDK would otherwise look for a key in the environment. It is removed from each request. */
const NO_KEY = 'none';

/** Returns a function that resolves the endpoint of each request: the provider itself, or its transport. */
export function createEndpointResolver(config: WireConfig): (request: LlmRequest) => ProviderEndpoint {
  const sendFor = createSender();
  const guardedSendFor = createSender(addressGuard(config.outboundHosts));
  const signers = new Map<string, Promise<Signer>>();
  const signerFor = (region: string): Promise<Signer> => {
    const known = signers.get(region);
    if (known !== undefined) return known;
    // Loaded on demand: few platforms have this transport.
    const signer = import('./bedrock-signer.ts').then(({ createBedrockSigner }) => createBedrockSigner(region));
    signers.set(region, signer);
    return signer;
  };
  return ({ provider, transport, apiKey, onSign, traceHeaders }) => {
    switch (transport?.via) {
      case 'bedrock': {
        const { region, model } = transport;
        const prepare = async (request: OutgoingRequest) =>
          (await signerFor(region))(withoutHeader(withModel(request, model), 'x-api-key'));
        const endpoint = config.bedrockUrl ?? `https://bedrock-runtime.${region}.${suffixOf(region)}`;
        return {
          baseURL: `${endpoint}/anthropic/v1`,
          apiKey: NO_KEY,
          send: sendFor({ onSign, traceHeaders, prepare }),
        };
      }
      case 'azure': {
        const { url, auth, model } = transport;
        const prepare = (request: OutgoingRequest) => {
          const renamed = withModel(request, model);
          if (auth === 'bearer') return renamed;
          const bare = withoutHeader(renamed, 'authorization');
          return { ...bare, headers: { ...bare.headers, 'api-key': apiKey! } };
        };
        return { baseURL: url, apiKey, send: sendFor({ onSign, traceHeaders, prepare }) };
      }
      case 'gateway':
        return { baseURL: transport.url, apiKey, send: guardedSendFor({ onSign, traceHeaders }) };
      default: {
        const { urlSetting } = rowOf(provider);
        const baseURL = urlSetting === null ? undefined : config[urlSetting];
        if (baseURL === undefined) throw new PlatformError('LLM_ERROR', 'No local model server is configured.');
        return { baseURL, apiKey, send: sendFor({ onSign, traceHeaders }) };
      }
    }
  };
}

/** The SDK keeps its own model id, which determines the supported settings. */
const withModel = (request: OutgoingRequest, model: string): OutgoingRequest => ({
  ...request,
  body: JSON.stringify({ ...JSON.parse(request.body), model }),
});

function withoutHeader({ headers, ...request }: OutgoingRequest, name: string): OutgoingRequest {
  const { [name]: _, ...kept } = headers;
  return { ...request, headers: kept };
}

/** China is a separate AWS partition. */
const suffixOf = (region: string): string => (region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com');
