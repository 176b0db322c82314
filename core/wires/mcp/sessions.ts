import { createHash } from 'node:crypto';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Key } from '#core/ports/table.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import type { McpRequest } from './scene.ts';

/**
 * Sessions of older revisions serve one purpose here: a client cancels a call with a message of its own, which names the call by
 * the number of its request. Runs table, with expiry:
 *
 * - `WS#<workspace id>#MCP#<hash of key, session and number> / CALL`: the run of the call
 */
const KEPT_SECONDS = 3600;

export const SESSION_HEADER = 'mcp-session-id';
const SESSION = /^[0-9a-f-]{36}$/;

type RequestId = string | number;

const keyOf = ({ caller }: McpRequest, session: string, requestId: RequestId): Key => {
  const name = JSON.stringify([caller.keyId, session, requestId]);
  return { pk: `WS#${caller.workspace.id}#MCP#${createHash('sha256').update(name).digest('hex')}`, sk: 'CALL' };
};

function sessionOf({ request }: McpRequest): string | undefined {
  const session = request.headers.get(SESSION_HEADER);
  return session !== null && SESSION.test(session) ? session : undefined;
}

/** Stores the run of a call, so that another request of the session can cancel it. */
export async function noteCall(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  incoming: McpRequest,
  { requestId, workspaceId, runId }: { requestId: RequestId; workspaceId: string; runId: string },
): Promise<void> {
  const session = sessionOf(incoming);
  if (session === undefined) return;
  const ttl = epochSeconds(clock.now()) + KEPT_SECONDS;
  await runs.put({ ...keyOf(incoming, session, requestId), workspace_id: workspaceId, run_id: runId, ttl });
}

/** Cancels the run of the call that a notification names, if it is one of the session. */
export async function cancelNoted(deps: Deps, incoming: McpRequest, message: unknown): Promise<void> {
  const { method, params } = (message ?? {}) as { readonly method?: unknown; readonly params?: unknown };
  const session = sessionOf(incoming);
  if (method !== 'notifications/cancelled' || session === undefined) return;
  const { requestId } = (params ?? {}) as { readonly requestId?: unknown };
  if (typeof requestId !== 'string' && typeof requestId !== 'number') return;
  const noted = await deps.runs.get(keyOf(incoming, session, requestId));
  if (noted !== undefined) await cancelRun(deps, noted.workspace_id as string, noted.run_id as string);
}

/** Whether a client of an older revision begins. */
export const isInitialize = (message: unknown): boolean =>
  (message as { readonly method?: unknown } | null)?.method === 'initialize';
