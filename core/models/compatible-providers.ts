import { PlatformError } from '#core/base/errors.ts';
import { withoutEnd } from '#core/base/text.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { COMPATIBLE, COMPATIBLE_NAME, type CompatibleProvider } from '#core/ports/llm.ts';
import type { ModelPrice } from '#core/ports/model-table.ts';
import { nameOf, presetOf } from './providers/openai-compatible.ts';

/** Prices of one model, in US dollars per million tokens. */
export interface OwnPrice {
  readonly input: number;
  readonly output: number;
  /** @default - the price of other input */
  readonly cache_read?: number;
  readonly cache_write?: number;
}

/** What a workspace says about a provider, stored in its vault as JSON. */
export interface CompatibleSettings {
  /** @default - the address of the preset */
  readonly base_url?: string;
  /** Absent for a server that needs none. */
  readonly api_key?: string;
  /** Asked if neither the caller nor the agent names a model. */
  readonly default_model?: string;
  /** By model id. */
  readonly prices?: Readonly<Record<string, OwnPrice>>;
}

/** Secrets with this prefix hold providers. They are never given to programs. */
const SECRET_PREFIX = 'LLM_PROVIDER_';

/** Returns the name of the secret with the settings of a provider. */
export const settingsSecretOf = (name: string): string => `${SECRET_PREFIX}${name.toUpperCase().replaceAll('-', '_')}`;

/** Whether a secret's name is kept for the settings of providers. */
export const isSettingsSecret = (secret: string): boolean => secret.startsWith(SECRET_PREFIX);

/** Returns the provider whose settings are stored in the secret of this name. */
export function compatibleOfSecret(secret: string): CompatibleProvider | undefined {
  const name = secret.slice(SECRET_PREFIX.length).toLowerCase().replaceAll('_', '-');
  return isSettingsSecret(secret) && COMPATIBLE_NAME.test(name) ? `${COMPATIBLE}:${name}` : undefined;
}

/** Reads the settings from the text of a secret. Only the platform writes such secrets. */
export const readSettings = (text: string): CompatibleSettings => JSON.parse(text);

export const writeSettings = (settings: CompatibleSettings): string => JSON.stringify(settings);

/**
 * Returns the checked address of a provider. Throws INVALID_INPUT if it is not allowed, or if there is none.
 *
 * @param baseUrl Address that the workspace set.
 */
export function compatibleUrl(
  provider: CompatibleProvider,
  baseUrl: string | undefined,
  ownHosts: readonly string[],
): string {
  const name = nameOf(provider);
  const given = baseUrl ?? presetOf(name)?.url;
  if (given === undefined) {
    throw new PlatformError('INVALID_INPUT', `base_url: the provider "${name}" needs the address of its API.`, {
      hint: 'Give the address that ends before /chat/completions, such as https://models.example.com/v1.',
    });
  }
  const field = `base_url of the provider "${name}"`;
  const { url } = checkOutboundUrl(given, ownHosts, field, 'https://models.example.com/v1');
  if (url.search !== '' || url.hash !== '') {
    throw new PlatformError('INVALID_INPUT', `${field}: the address must end with its path, without ? and #.`);
  }
  return withoutEnd(url.href, '/');
}

/** Returns the workspace's own price of a model. */
export function ownPriceOf({ prices = {} }: CompatibleSettings, model: string): ModelPrice | undefined {
  const price = Object.hasOwn(prices, model) ? prices[model] : undefined;
  if (price === undefined) return undefined;
  const { input, cache_read = input, cache_write = input } = price;
  return { ...price, cache_read, cache_write };
}
