import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { SignInFailure, SignInProvider } from '#core/ports/sign-in-provider.ts';
import { beginSession } from '../begin-session.ts';
import { pathIn, SIGN_IN_PATH } from '../codes.ts';
import { oidcCookie, oidcCookieOf, refuseForeignNames } from '../own-pages.ts';
import { answerPage } from '../page-answers.ts';
import { goOnPage, joinedPage } from '../pages.ts';
import type { signInRoutes } from '../routes.ts';
import { accountOf } from './accounts.ts';
import { ATTEMPT_LIFE_MS, beginAttempt, CALLBACK_PATH, takeAttempt } from './attempts.ts';
import { dashboardPath, ownPath, providerLinkOf } from './provider-link.ts';

type OidcDeps = Pick<AllDeps, 'main' | 'counters' | 'clock' | 'ids' | 'config' | 'log'> &
  Partial<Pick<AllDeps, 'signInProvider'>>;
type OidcHandlers = Pick<Handlers<typeof signInRoutes>, 'getSignInOptions' | 'startOidc' | 'finishOidc'>;

/** Sign-in with the operator's OpenID provider (`docs/interface/sign-in.md#openid-providers`). */
export const oidcHandlers = (deps: OidcDeps): OidcHandlers => ({
  async getSignInOptions() {
    const link = providerLinkOf(deps);
    return { status: 200, body: { oidc: link ? { name: link.name, path: link.start } : null } };
  },

  async startOidc({ request, query: { to } }) {
    return answerPage(request, async () => {
      const { provider } = setUp(deps);
      refuseForeignNames(deps.config, request.headers);
      const { attempt, browser } = await beginAttempt(deps, ownPath(deps.config, to));
      const location = await asked(deps, () => provider.authorizationUrl(attempt));
      const setCookie = oidcCookie(deps.config, browser, ATTEMPT_LIFE_MS / 1000);
      return { status: 303, headers: { 'set-cookie': setCookie, location } };
    });
  },

  async finishOidc({ request, requestUuid, address }) {
    return answerPage(request, async () => {
      const { provider, name } = setUp(deps);
      refuseForeignNames(deps.config, request.headers);
      const { search, searchParams } = new URL(request.url, 'http://host');
      const taken = await takeAttempt(
        deps,
        searchParams.get('state') ?? '',
        oidcCookieOf(deps.config, request.headers),
      );
      if (taken === undefined) {
        throw new PlatformError(
          'UNAUTHORIZED',
          'This sign-in was not started in this browser, or has expired: start again.',
        );
      }
      const callbackUrl = `${deps.config.baseUrl}${CALLBACK_PATH}${search}`;
      const identity = await asked(deps, () => provider.identify(taken.attempt, callbackUrl));
      const { user, key, earlierKeys } = await accountOf(deps, identity, { requestUuid, address });
      const { setCookie } = await beginSession(deps, request.headers, key);
      const url = taken.to ?? dashboardPath(deps.config) ?? pathIn(deps.config, SIGN_IN_PATH);
      const content = earlierKeys
        ? joinedPage({ provider: name, email: user.email, createdAt: user.createdAt, keys: earlierKeys, url })
        : goOnPage(url);
      return { status: 200, content, headers: { 'set-cookie': setCookie } };
    });
  },
});

function setUp({ config, signInProvider }: OidcDeps): { provider: SignInProvider; name: string } {
  if (signInProvider && config.oidcIssuer) return { provider: signInProvider, name: new URL(config.oidcIssuer).host };
  throw new PlatformError('UNPROCESSABLE', 'This platform has no OpenID provider.', {
    hint: 'Sign in with an API key. The operator can configure a provider (docs/sign-in.md).',
  });
}

/**
 * Returns the provider's answer. Throws UNAUTHORIZED, and UNPROCESSABLE if the provider does not answer; the log has
 * the reason.
 */
async function asked<T>({ config, log }: OidcDeps, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, kind, message } = error as SignInFailure;
    if (code !== 'SIGN_IN_FAILED') throw error;
    const host = new URL(config.oidcIssuer!).host;
    log.warn('sign-in failed', { issuer: host, kind, reason: message });
    if (kind === 'refused') throw new PlatformError('UNAUTHORIZED', `${host} did not sign you in: ${message}.`);
    if (kind === 'unfit') {
      throw new PlatformError('UNAUTHORIZED', `The answer of ${host} does not prove your identity: start again.`, {
        hint: "If this persists, contact the platform's operator: the log has the reason.",
      });
    }
    throw new PlatformError('UNPROCESSABLE', `The platform cannot reach ${host} at the moment: try again.`, {
      hint: "If this persists, contact the platform's operator: the log has the reason.",
    });
  }
}
