import { call } from '../../api/client.ts';

/** What this browser knows of its visits to a link: the secret of the visitor, and its session. */
export interface Visit {
  readonly visitor: string;
  readonly sessionId: string;
}

/** Sessions are kept for less long on the platform. */
const MAX_AGE_MS = 30 * 24 * 3_600_000;
const PREFIX = 'chat-link:';

const keyOf = (token: string): string => PREFIX + token;

/** Returns the visit of this browser to a link; `undefined` if there is none, or if the browser keeps nothing. */
export function knownVisit(token: string): Visit | undefined {
  try {
    const { visitor, sessionId, at } = JSON.parse(localStorage.getItem(keyOf(token)) ?? '{}');
    const isKnown = typeof visitor === 'string' && typeof sessionId === 'string' && Date.now() - at < MAX_AGE_MS;
    return isKnown ? { visitor, sessionId } : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a visit. Without storage, it lasts as long as the page. */
function keepVisit(token: string, visit: Visit): void {
  try {
    localStorage.setItem(keyOf(token), JSON.stringify({ ...visit, at: Date.now() }));
  } catch {}
}

export function forgetVisit(token: string): void {
  try {
    localStorage.removeItem(keyOf(token));
  } catch {}
}

/** Opens a session with a link, and keeps the secret of the visitor in this browser. */
export async function openVisit(token: string, visitor?: string): Promise<Visit> {
  const opened = await call('openChatSession', {
    params: { chat: token },
    ...(visitor !== undefined && { headers: { 'x-platform-visitor': visitor } }),
  });
  const visit = { visitor: opened.visitor, sessionId: opened.session_id };
  keepVisit(token, visit);
  return visit;
}
