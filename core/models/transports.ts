import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import { withoutEnd } from '#core/base/text.ts';
import type { AzureTransport, BedrockTransport } from '#core/base/transports.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isCompatible, type LlmProvider, type LlmRequest, type LlmTransport } from '#core/ports/llm.ts';
import { type CompatibleSettings, compatibleUrl } from './compatible-providers.ts';
import { nameOf, presetOf } from './providers/openai-compatible.ts';
import type { ProviderKey, ProviderRow } from './providers/row.ts';
import { rowOf, withoutEdition } from './providers.ts';

/** Credentials for a provider: a key and its destination, both from the same source. */
export interface Access {
  /** Absent for a local model server, and if the platform's own credentials are used. */
  readonly apiKey?: string;
  /** The workspace's address that goes with the key. */
  readonly gateway?: string;
  /** The operator's transport to the provider. */
  readonly setting?: BedrockTransport | AzureTransport;
  /** What the workspace says about a provider that it has set up. */
  readonly settings?: CompatibleSettings;
}

/** Keys by provider, each with its destination. */
export type Keys = {
  readonly [Provider in LlmProvider]?: Pick<Access, 'apiKey' | 'settings'> & {
    /** The workspace's address of a built-in provider. */
    readonly address?: string;
  };
};

/**
 * Decides how to reach a provider. A key with an address is only sent to that address; a key without one goes where the
 * operator configured; without a key, the operator's own credentials are used (`docs/interface/transports.md`). Returns
 * `undefined` if the provider cannot be asked. Throws INVALID_INPUT for an address that is not allowed.
 */
export function accessTo(
  provider: LlmProvider,
  key: Keys[LlmProvider] | undefined,
  { transports = {}, outboundHosts }: Pick<Config, 'transports' | 'outboundHosts'>,
): Access | undefined {
  if (isCompatible(provider)) {
    if (key === undefined) return undefined;
    const { apiKey, settings } = key;
    if (settings === undefined && presetOf(nameOf(provider))?.url === undefined) throw ownKeyWithoutAddress(provider);
    return { apiKey, settings, gateway: compatibleUrl(provider, settings?.base_url, outboundHosts) };
  }
  const ways: { readonly [Provider in LlmProvider]?: BedrockTransport | AzureTransport } = transports;
  const setting = ways[provider];
  const row = rowOf(provider).key;
  if (key === undefined) {
    if (setting?.via === 'bedrock') return { setting };
    return row === null ? {} : undefined;
  }
  const { apiKey, address } = key;
  if (address !== undefined && row !== null) return { apiKey, gateway: gatewayUrl(row, address, outboundHosts) };
  // Bedrock does not accept Anthropic keys.
  return setting?.via === 'azure' ? { apiKey, setting } : { apiKey };
}

/** A caller's key is never sent to an address of a workspace. */
const ownKeyWithoutAddress = (provider: LlmProvider): PlatformError =>
  new PlatformError(
    'INVALID_INPUT',
    `"llm_credentials.api_key" cannot be used with ${provider}: its address is the workspace's own, which only gets the workspace's own key.`,
    { hint: 'Leave the key out, so that the provider of the workspace is used.' },
  );

/**
 * Returns the provider's default model, or the first of the operator's transport if that does not have it; `undefined` if
 * there is none.
 */
export function mappedModel({ setting }: Access, { defaultModel }: ProviderRow): string | undefined {
  if (setting === undefined || (defaultModel !== undefined && defaultModel in setting.models)) return defaultModel;
  return Object.keys(setting.models)[0];
}

/** Returns the transport of a model; `unmapped` if the operator configured no name for it there. */
export function transportOf({ gateway, setting }: Access, model: string): LlmTransport | undefined | 'unmapped' {
  if (gateway !== undefined) return { via: 'gateway', url: gateway };
  if (setting === undefined) return undefined;
  const { models, ...way } = setting;
  const name = models[model] ?? models[withoutEdition(model)];
  return name === undefined ? 'unmapped' : { ...way, model: name };
}

/**
 * Returns the id under which the model table lists the price of a choice. The model's own id has the price of its
 * provider's API.
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
