import { hash } from 'node:crypto';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import type { SignInAttempt } from '#core/ports/sign-in-provider.ts';
import { hashKey } from '../../keys/key-format.ts';
import { consumeToken, newSecret } from '../one-time-tokens.ts';

/**
 * Pending sign-ins at the provider. Each works once, for ten minutes, in the browser that began it. The
 * browser has a cookie from which, with the state, nonce and verifier are derived, so that neither is stored.
 */
type AttemptDeps = Pick<Deps, 'counters' | 'clock' | 'ids' | 'config'>;

export const ATTEMPT_LIFE_MS = 10 * 60_000;
export const CALLBACK_PATH = '/auth/oidc/callback';

const attemptOf = ({ config }: Pick<Deps, 'config'>, state: string, browser: string): SignInAttempt => ({
  redirectUrl: `${config.baseUrl}${CALLBACK_PATH}`,
  state,
  nonce: hash('sha256', `nonce ${browser} ${state}`, 'base64url'),
  verifier: hash('sha256', `verifier ${browser} ${state}`, 'base64url'),
});

/**
 * @param to Path of the platform to show afterwards.
 * @returns the attempt, and the cookie for the browser.
 */
export async function beginAttempt(deps: AttemptDeps, to: string | undefined) {
  const browser = newToken(deps.ids);
  const content = { browser: hashKey(browser), issuer: deps.config.oidcIssuer, ...(to !== undefined && { to }) };
  const { secret: state, operation } = newSecret(deps, 'OIDCSTATE', content, ATTEMPT_LIFE_MS);
  await deps.counters.transact([operation]);
  return { attempt: attemptOf(deps, state, browser), browser };
}

/**
 * Consumes an attempt. Returns `undefined` unless it belongs to this browser and to the currently configured provider.
 */
export async function takeAttempt(
  deps: AttemptDeps,
  state: string,
  browser: string | undefined,
): Promise<{ readonly attempt: SignInAttempt; readonly to?: string } | undefined> {
  const content = await consumeToken(deps, 'OIDCSTATE', state);
  if (content === undefined || browser === undefined || content.browser !== hashKey(browser)) return undefined;
  if (content.issuer !== deps.config.oidcIssuer) return undefined;
  return { attempt: attemptOf(deps, state, browser), to: content.to as string | undefined };
}
