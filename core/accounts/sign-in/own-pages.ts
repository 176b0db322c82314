import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import type { RequestHeaders } from '#core/http/message.ts';

/**
 * Session cookies, and which requests may use them (`docs/interface/sign-in.md#sessions-of-browsers`). A browser adds
 * the cookie to requests of any page to the platform, so the cookie alone proves nothing: the request must also come
 * from a page of the platform.
 */
type BaseUrl = Pick<Config, 'baseUrl'>;

/** Returns the platform's address. Throws FORBIDDEN if no browser would store the cookie there. */
function addressOf({ baseUrl }: BaseUrl): URL {
  const address = baseUrl === undefined ? undefined : new URL(baseUrl);
  if (address?.protocol === 'https:' || (address && isLoopbackName(address.hostname))) return address;
  throw new PlatformError('FORBIDDEN', 'Browsers can sign in at an https address, or on the platform’s own machine.', {
    hint: 'Set PLATFORM_BASE_URL to the https address of the proxy before the platform.',
  });
}

/** Whether a host, with its port, is the platform's. All names of this machine are equivalent. */
function isOwnHost(address: URL, host: string): boolean {
  if (host === address.host) return true;
  const given = URL.parse(`${address.protocol}//${host}`);
  return (
    given !== null && isLoopbackName(address.hostname) && isLoopbackName(given.hostname) && given.port === address.port
  );
}

function isOwnOrigin(address: URL, origin: string): boolean {
  const given = URL.parse(origin);
  return given !== null && given.protocol === address.protocol && isOwnHost(address, given.host);
}

/**
 * Whether the request names the platform: over plain http a foreign name may resolve to this machine (DNS rebinding).
 * Over https the certificate proves the name. Throws FORBIDDEN if no browser can sign in.
 */
function isToOwnName(config: BaseUrl, headers: RequestHeaders): boolean {
  const address = addressOf(config);
  return address.protocol === 'https:' || isOwnHost(address, headers.get('host') ?? '');
}

/** Whether, according to the browser, a page of the platform sent the request to the platform's own name. */
export function isFromOwnPage(config: BaseUrl, headers: RequestHeaders, sites: readonly string[]): boolean {
  if (!isToOwnName(config, headers)) return false;
  const site = headers.get('sec-fetch-site');
  return site === null ? isOwnOrigin(addressOf(config), headers.get('origin') ?? '') : sites.includes(site);
}

/**
 * Refuses requests that another site's page made the browser send; programs send none of these headers. Throws
 * FORBIDDEN.
 */
export function refuseForeignPages(config: BaseUrl, headers: RequestHeaders): void {
  const isBrowser = headers.has('sec-fetch-site') || headers.has('origin');
  if (!isBrowser || isFromOwnPage(config, headers, ['same-origin'])) return;
  throw new PlatformError('FORBIDDEN', 'Another page sent this request: sign in on a page of the platform.');
}

/** Throws FORBIDDEN for a request to a foreign name that resolves to this machine, and if no browser can sign in. */
export function refuseForeignNames(config: BaseUrl, headers: RequestHeaders): void {
  if (isToOwnName(config, headers)) return;
  throw new PlatformError('FORBIDDEN', `This is not the platform's address: open ${config.baseUrl}.`);
}

/** Cookie of a session, or of a pending sign-in at the provider. */
type CookieName = 'session' | 'oidc';

const nameOf = (address: URL, name: CookieName): string =>
  `${address.protocol === 'https:' ? '__Host-' : ''}platform_${name}`;

function cookieOf(config: BaseUrl, headers: RequestHeaders, cookie: CookieName): string | undefined {
  const cookies = headers.get('cookie');
  if (cookies === null || config.baseUrl === undefined) return undefined;
  const name = nameOf(new URL(config.baseUrl), cookie);
  for (const pair of cookies.split(';')) {
    const [given, value] = pair.trim().split('=');
    if (given === name && value) return value;
  }
  return undefined;
}

function cookieText(
  config: BaseUrl,
  name: CookieName,
  { value, sameSite, maxAgeSeconds }: { value: string; sameSite: 'Strict' | 'Lax'; maxAgeSeconds: number },
): string {
  const address = addressOf(config);
  const secure = address.protocol === 'https:' ? ' Secure;' : '';
  return `${nameOf(address, name)}=${value}; Path=/;${secure} HttpOnly; SameSite=${sameSite}; Max-Age=${maxAgeSeconds}`;
}

/** Returns the value of the cookie; `undefined` if it is missing. */
export const sessionCookieOf = (config: BaseUrl, headers: RequestHeaders): string | undefined =>
  cookieOf(config, headers, 'session');

/** `Set-Cookie` of a session; `maxAgeSeconds` 0 removes it. Throws FORBIDDEN if no browser would store it. */
export const sessionCookie = (config: BaseUrl, value: string, maxAgeSeconds: number): string =>
  cookieText(config, 'session', { value, sameSite: 'Strict', maxAgeSeconds });

export const oidcCookieOf = (config: BaseUrl, headers: RequestHeaders): string | undefined =>
  cookieOf(config, headers, 'oidc');

/**
 * `Set-Cookie` of a browser that begins a sign-in: it must return with the provider's redirect. Throws like {@link
 * sessionCookie}.
 */
export const oidcCookie = (config: BaseUrl, value: string, maxAgeSeconds: number): string =>
  cookieText(config, 'oidc', { value, sameSite: 'Lax', maxAgeSeconds });
