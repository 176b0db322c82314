import type { Caller, KeyLimits } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { type KeyNeeds, keyScopeOf } from '#core/http/route.ts';

const scopeErrors = new WeakSet<Error>();

/** Whether {@link checkKeyLimits} threw the error because of the scope. */
export const isLackOfScope = (error: Error): boolean => scopeErrors.has(error);

/**
 * Throws FORBIDDEN if a key with these limits lacks the scope of a row, or has no access to the workspace that the
 * request names (`docs/interface/authentication.md#scopes`).
 */
export function checkKeyLimits(limits: KeyLimits, row: KeyNeeds, wantedWorkspace: string | undefined): void {
  const { scope = 'manage', workspaceId } = limits;
  const needed = keyScopeOf(row);
  if (needed !== 'read' && scope !== needed && scope !== 'manage') {
    const message = `This API key has the scope "${scope}", but this request needs "${needed}".`;
    const error = new PlatformError('FORBIDDEN', message);
    scopeErrors.add(error);
    throw error;
  }
  if (workspaceId === undefined) return;
  if (row.ofUser) {
    throw new PlatformError(
      'FORBIDDEN',
      'This API key is limited to one workspace, but this request concerns its user.',
    );
  }
  if (wantedWorkspace !== undefined && wantedWorkspace !== workspaceId) {
    throw new PlatformError('FORBIDDEN', `This API key is limited to the workspace with the id "${workspaceId}".`);
  }
}

/**
 * Returns the limits of a new key: those that the caller requests, within those of its own key. Throws FORBIDDEN if it
 * requests more, and INVALID_INPUT for an expiry in the past.
 */
export function limitsForNewKey({ limits: own = {} }: Caller, asked: KeyLimits, now: number): KeyLimits {
  const { workspaceId = own.workspaceId, expiresAt = own.expiresAt } = asked;
  if (own.workspaceId !== undefined && workspaceId !== own.workspaceId) {
    throw new PlatformError('FORBIDDEN', 'body.workspace_id: your own API key is limited to another workspace.');
  }
  if (expiresAt !== undefined && Date.parse(expiresAt) <= now) {
    throw new PlatformError(
      'INVALID_INPUT',
      `body.expires_at: ${expiresAt} is in the past: send a time in the future.`,
    );
  }
  if (own.expiresAt !== undefined && expiresAt! > own.expiresAt) {
    throw new PlatformError('FORBIDDEN', `body.expires_at: your own API key expires earlier, at ${own.expiresAt}.`);
  }
  return { scope: asked.scope, workspaceId, expiresAt };
}
