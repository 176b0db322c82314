import type { Config } from '#core/base/config.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { CLI_PATH, pathIn } from '../codes.ts';
import type { ProviderLink } from '../pages.ts';

const START_PATH = '/auth/oidc/start';

/** Returns the link to the provider; `undefined` if the operator has configured none. */
export function providerLinkOf(
  { config, signInProvider }: Pick<AllDeps, 'config'> & Partial<Pick<AllDeps, 'signInProvider'>>,
  to?: string,
): ProviderLink | undefined {
  if (signInProvider === undefined || config.oidcIssuer === undefined) return undefined;
  const query = to === undefined ? '' : `?${new URLSearchParams({ to })}`;
  return { name: new URL(config.oidcIssuer).host, start: `${pathIn(config, START_PATH)}${query}` };
}

/**
 * Returns `to` if it is the path of a page of the platform as browsers see it, with query and fragment: of the
 * dashboard, or the page on which users approve a command line. Returns `undefined` for everything else, such as the
 * address of another site in any spelling.
 */
export function ownPath(config: Pick<Config, 'baseUrl' | 'dashboardUrl'>, to: string | undefined): string | undefined {
  const base = new URL(config.baseUrl ?? 'http://host').origin;
  const url = to?.startsWith('/') ? URL.parse(to, base) : null;
  if (url === null || url.origin !== base) return undefined;
  const { pathname, search, hash } = url;
  const dashboard = dashboardPath(config);
  const isShown =
    pathname === pathIn(config, CLI_PATH) || (dashboard !== undefined && `${pathname}/`.startsWith(dashboard));
  return isShown ? pathname + search + hash : undefined;
}

/** Returns the path with a slash at the end; `undefined` if there is no dashboard. */
export const dashboardPath = ({ dashboardUrl }: Pick<Config, 'dashboardUrl'>): string | undefined =>
  dashboardUrl === undefined ? undefined : `${new URL(dashboardUrl).pathname}/`;
