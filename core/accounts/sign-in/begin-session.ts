import type { RequestHeaders } from '#core/http/message.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { ApiKey } from '../keys/store.ts';
import { userEmailItem } from '../workspaces/emails.ts';
import { findUser } from '../workspaces/store.ts';
import { sessionCookie, sessionCookieOf } from './own-pages.ts';
import { createSession, endSession, findSession } from './sessions.ts';

type SessionDeps = Pick<AllDeps, 'main' | 'counters' | 'clock' | 'ids' | 'config'> &
  Partial<Pick<AllDeps, 'signInProvider'>>;

/**
 * Creates a new session and ends the one that the browser presented. Throws FORBIDDEN if no browser would store its
 * cookie.
 */
export async function beginSession(deps: SessionDeps, headers: RequestHeaders, key: ApiKey) {
  // Checked first, so that no session is created if no browser can have one.
  sessionCookie(deps.config, '', 0);
  const before = sessionCookieOf(deps.config, headers);
  const old = before === undefined ? undefined : await findSession(deps, before);
  if (old) await endSession(deps, old);
  // Indexes users of version 0.1.0 by their e-mail address, too.
  const user = deps.signInProvider && (await findUser(deps, key.userId));
  if (user) await deps.main.put(userEmailItem(user));
  const { token, session, maxAgeSeconds } = await createSession(deps, key, headers.get('user-agent'));
  return { session, setCookie: sessionCookie(deps.config, token, maxAgeSeconds) };
}
