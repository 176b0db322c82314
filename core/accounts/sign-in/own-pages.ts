import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { RequestHeaders } from '#core/http/message.ts';

/**
 * Cookies of sessions, and which requests may use them (`docs/interface/sign-in.md#sessions-of-browsers`). A browser adds the cookie to
 * requests of any page that reaches the platform, so the cookie alone proves nothing: the request must also come from a page of
 * the platform's own.
 */
type BaseUrl = Pick<Config, 'baseUrl'>;

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];
const isLoopback = (hostname: string): boolean => LOOPBACK.includes(hostname);

/** The platform's own address. Throws FORBIDDEN where no browser would keep the cookie. */
function addressOf({ baseUrl }: BaseUrl): URL {
  const address = baseUrl === undefined ? undefined : new URL(baseUrl);
  if (address?.protocol === 'https:' || (address && isLoopback(address.hostname))) return address;
  throw new PlatformError('FORBIDDEN', 'Browsers can sign in at an https address, or on the platform’s own machine.', {
    hint: 'Set PLATFORM_BASE_URL to the https address of the proxy before the platform.',
  });
}

/** Whether a host, with its port, is the platform's: names of this machine are one. */
function isOwnHost(address: URL, host: string): boolean {
  if (host === address.host) return true;
  const given = URL.parse(`${address.protocol}//${host}`);
  return given !== null && isLoopback(address.hostname) && isLoopback(given.hostname) && given.port === address.port;
}

function isOwnOrigin(address: URL, origin: string): boolean {
  const given = URL.parse(origin);
  return given !== null && given.protocol === address.protocol && isOwnHost(address, given.host);
}

/**
 * Whether the browser says that a page of the platform sent the request. Over plain http the name in `Host` must be the platform's,
 * too: a foreign name may lead to this machine (DNS rebinding). Over https the certificate proves the name.
 */
export function isFromOwnPage(config: BaseUrl, headers: RequestHeaders, sites: readonly string[]): boolean {
  const address = addressOf(config);
  if (address.protocol === 'http:' && !isOwnHost(address, headers.get('host') ?? '')) return false;
  const site = headers.get('sec-fetch-site');
  return site === null ? isOwnOrigin(address, headers.get('origin') ?? '') : sites.includes(site);
}

/** Refuses what another page made a browser send; programs send none of these headers. Throws FORBIDDEN. */
export function refuseForeignPages(config: BaseUrl, headers: RequestHeaders): void {
  const isBrowser = headers.has('sec-fetch-site') || headers.has('origin');
  if (!isBrowser || isFromOwnPage(config, headers, ['same-origin'])) return;
  throw new PlatformError('FORBIDDEN', 'Another page sent this request: sign in on a page of the platform.');
}

const nameOf = (address: URL): string =>
  address.protocol === 'https:' ? '__Host-platform_session' : 'platform_session';

/** The cookie's value; `undefined` without it. */
export function sessionCookieOf(config: BaseUrl, headers: RequestHeaders): string | undefined {
  const cookies = headers.get('cookie');
  if (cookies === null || config.baseUrl === undefined) return undefined;
  const name = nameOf(new URL(config.baseUrl));
  for (const pair of cookies.split(';')) {
    const [given, value] = pair.trim().split('=');
    if (given === name && value) return value;
  }
  return undefined;
}

/** `Set-Cookie` of a session; one that ended has `maxAgeSeconds` 0. Throws FORBIDDEN where no browser would keep it. */
export function sessionCookie(config: BaseUrl, token: string, maxAgeSeconds: number): string {
  const address = addressOf(config);
  const secure = address.protocol === 'https:' ? ' Secure;' : '';
  return `${nameOf(address)}=${token}; Path=/;${secure} HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}`;
}
