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
 * A new session, never one that the browser brought; that one ends. Throws FORBIDDEN where no browser would keep its cookie.
 */
export async function beginSession(deps: SessionDeps, headers: RequestHeaders, key: ApiKey) {
  // First, so that no session is made where no browser can have one.
  sessionCookie(deps.config, '', 0);
  const before = sessionCookieOf(deps.config, headers);
  const old = before === undefined ? undefined : await findSession(deps, before);
  if (old) await endSession(deps, old);
  // So that users of version 0.1.0 are found by their address, too.
  const user = deps.signInProvider && (await findUser(deps, key.userId));
  if (user) await deps.main.put(userEmailItem(user));
  const { token, session, maxAgeSeconds } = await createSession(deps, key, headers.get('user-agent'));
  return { session, setCookie: sessionCookie(deps.config, token, maxAgeSeconds) };
}
