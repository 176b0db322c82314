import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import { withoutEnd } from '#core/base/text.ts';
import type { AzureTransport, BedrockTransport } from '#core/base/transports.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { LlmProvider, LlmRequest, LlmTransport } from '#core/ports/llm.ts';
import type { ProviderKey } from './providers/row.ts';
import { PROVIDERS, withoutEdition } from './providers.ts';

/** How a provider may be asked: a key and where it goes, both from the same place. */
export interface Access {
  /** Absent for a local model server, and where the platform's own credentials are used. */
  readonly apiKey?: string;
  /** The workspace's address for the key. */
  readonly gateway?: string;
  /** The operator's way to the provider. */
  readonly setting?: BedrockTransport | AzureTransport;
}

/**
 * A key with an address goes to that address only, a key without one where the operator says, and the operator's own
 * credentials are used where there is no key (`docs/interface/transports.md`). `undefined`: the provider cannot be
 * asked. Throws INVALID_INPUT for an address that is not allowed.
 */
export function accessTo(
  provider: LlmProvider,
  key: { readonly apiKey: string; readonly address?: string } | undefined,
  { transports = {}, outboundHosts }: Pick<Config, 'transports' | 'outboundHosts'>,
): Access | undefined {
  const settings: { readonly [Provider in LlmProvider]?: BedrockTransport | AzureTransport } = transports;
  const setting = settings[provider];
  const row = PROVIDERS[provider].key;
  if (key === undefined) {
    if (setting?.via === 'bedrock') return { setting };
    return row === null ? {} : undefined;
  }
  const { apiKey, address } = key;
  if (address !== undefined && row !== null) return { apiKey, gateway: gatewayUrl(row, address, outboundHosts) };
  // Bedrock takes no keys of Anthropic.
  return setting?.via === 'azure' ? { apiKey, setting } : { apiKey };
}

/** The platform's default model, or where that cannot be had the first of the operator's. */
export function mappedModel({ setting }: Access, model: string): string {
  return setting === undefined || model in setting.models ? model : Object.keys(setting.models)[0]!;
}

/** The way to a model; `unmapped` if the operator does not say what it is called there. */
export function transportOf({ gateway, setting }: Access, model: string): LlmTransport | undefined | 'unmapped' {
  if (gateway !== undefined) return { via: 'gateway', url: gateway };
  if (setting === undefined) return undefined;
  const { models, ...way } = setting;
  const name = models[model] ?? models[withoutEdition(model)];
  return name === undefined ? 'unmapped' : { ...way, model: name };
}

/**
 * The id in the table of models that has the price of a choice: that of the model itself is the price at its provider's
 * own API.
 */
export function pricedId({ model, transport }: Pick<LlmRequest, 'model' | 'transport'>): string {
  if (transport === undefined) return model;
  return transport.via === 'gateway'
    ? `${new URL(transport.url).host}/${model}`
    : `${transport.via}/${transport.model}`;
}

/** Reads the address as the provider's own libraries do. */
function gatewayUrl(
  { addressSecret, addressVersion: version }: ProviderKey,
  address: string,
  ownHosts: readonly string[],
): string {
  const field = `the secret ${addressSecret}`;
  const { url } = checkOutboundUrl(address, ownHosts, field, 'https://gateway.example.com/v1');
  if (url.search !== '' || url.hash !== '') {
    throw new PlatformError('INVALID_INPUT', `${field}: the address must end with its path, without ? and #.`);
  }
  const base = withoutEnd(url.href, '/');
  return version === undefined || /\/v\d\w*$/.test(base) ? base : `${base}/${version}`;
}
