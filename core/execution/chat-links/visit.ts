import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { isOpenTo } from '#core/agents/access.ts';
import { resolveAgent } from '#core/agents/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { addressOfAgent, type ChatLink } from './link.ts';
import { findLinkOf } from './store.ts';
import { findSession, type VisitorSession } from './visitors.ts';

/** What a link leads to now. */
export interface Visited {
  readonly link: ChatLink;
  readonly agent: AgentVersion;
  readonly workspace: Workspace;
}

/** Headers of every answer to a link: it is neither kept by caches nor found by search engines, and not passed on. */
const LINK_HEADERS = { 'cache-control': 'no-store', 'x-robots-tag': 'noindex', 'referrer-policy': 'no-referrer' };
/** Finds what a link leads to. Throws NOT_FOUND, in the same words whatever the reason. */
export async function visit(
  deps: Deps,
  {
    params,
    responseHeaders,
  }: {
    readonly params: { readonly chat: string };
    readonly responseHeaders: Record<string, string>;
  },
): Promise<Visited> {
  Object.assign(responseHeaders, LINK_HEADERS);
  const link = await findLinkOf(deps, params.chat);
  if (link === undefined) throw gone();
  const { org, agent: name, version } = addressOfAgent(link);
  const [workspace, agent] = await Promise.all([
    findWorkspace(deps, link.workspaceId),
    resolveAgent(deps, org, name, version),
  ]);
  if (workspace === undefined || workspace.move?.state === 'moved') throw gone();
  // It may have been deleted, or made private, since.
  if (agent === undefined || !isOpenTo(agent, workspace.id)) throw gone();
  return { link, agent, workspace };
}

/** Throws NOT_FOUND for a session of another visitor or link, in the same words as for none. */
export async function sessionOf(
  deps: Pick<Deps, 'runs'>,
  link: ChatLink,
  {
    params,
    headers,
  }: {
    readonly params: { readonly chat_session: string };
    readonly headers: { readonly 'x-platform-visitor'?: string | undefined };
  },
): Promise<VisitorSession> {
  const session = await findSession(deps, link, headers['x-platform-visitor'] ?? '', params.chat_session.slice(0, 64));
  if (session === undefined) throw new PlatformError('NOT_FOUND', 'This conversation does not exist or has expired.');
  return session;
}

const gone = (): PlatformError => new PlatformError('NOT_FOUND', 'This chat does not exist or has expired.');
