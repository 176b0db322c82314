import type { Deps } from '#core/ports/deps.ts';
import { type FoundSession, noSession, SessionStore } from '#core/runs/sessions/store.ts';
import { SHOWN_TURNS } from './view.ts';

/** Members of the headers by which a request names its tenant. */
interface TenantHeaders {
  readonly 'x-platform-tenant'?: string | undefined;
}

/**
 * Finds a session that a request may see: a request without a tenant sees those of all tenants, one with a tenant only its own.
 * Throws NOT_FOUND.
 */
export async function visibleSession(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock'>,
  { workspaceId, id, headers }: { readonly workspaceId: string; readonly id: string; readonly headers: TenantHeaders },
  turns = SHOWN_TURNS,
): Promise<FoundSession> {
  const found = await new SessionStore(deps, workspaceId).find(id.slice(0, 100), turns);
  const tenantId = headers['x-platform-tenant'];
  if (found === undefined || (tenantId !== undefined && found.session.tenantId !== tenantId)) throw noSession(id);
  return found;
}
