import type { Config } from '#core/base/config.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { pathIn } from '../codes.ts';
import type { ProviderLink } from '../pages.ts';

const START_PATH = '/auth/oidc/start';

/** The link to the provider; `undefined` where the operator has set up none. */
export function providerLinkOf(
  { config, signInProvider }: Pick<AllDeps, 'config'> & Partial<Pick<AllDeps, 'signInProvider'>>,
  to?: string,
): ProviderLink | undefined {
  if (signInProvider === undefined || config.oidcIssuer === undefined) return undefined;
  const query = to === undefined ? '' : `?${new URLSearchParams({ to })}`;
  return { name: new URL(config.oidcIssuer).host, start: `${pathIn(config, START_PATH)}${query}` };
}

/** Pages that a sign-in may lead to. */
const SHOWN = /^\/(dashboard(\/|$)|auth\/cli$)/;

/**
 * `to` if it is the path of one of the platform's pages, with query and fragment. Everything else, such as the address of another site
 * in any spelling, counts as nothing.
 */
export function ownPath({ baseUrl }: Pick<Config, 'baseUrl'>, to: string | undefined): string | undefined {
  const base = new URL(baseUrl ?? 'http://host').origin;
  const url = to?.startsWith('/') ? URL.parse(to, base) : null;
  if (url === null || url.origin !== base || !SHOWN.test(url.pathname)) return undefined;
  return url.pathname + url.search + url.hash;
}
