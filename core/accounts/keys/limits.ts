import type { Caller, KeyLimits, KeyScope } from '#core/base/caller.ts';
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
  if (!isEnough(scope, row)) {
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

/** Whether a key with the scope may use a row. The scope `publish` does not include `read`: it sees agents only. */
function isEnough(scope: KeyScope, row: KeyNeeds): boolean {
  if (scope === 'publish') return row.forPublishing === true;
  const needed = keyScopeOf(row);
  return needed === 'read' || scope === needed || scope === 'manage';
}

/** Throws FORBIDDEN if the key of the caller may not publish an agent of this name, or only previews of it. */
export function checkMayPublish({ limits }: Pick<Caller, 'limits'>, name: string, isPreview: boolean): void {
  if (limits?.previewsOnly === true && !isPreview) {
    throw new PlatformError('FORBIDDEN', 'This API key may publish previews only.', {
      hint: 'Give the preview a name: platform publish --preview <name> (docs/ci.md).',
    });
  }
  if (limits?.agents === undefined || limits.agents.includes(name)) return;
  throw new PlatformError('FORBIDDEN', `This API key may not publish an agent called "${name}".`, {
    hint: 'Its trust lists the agents that it may publish (docs/ci.md).',
  });
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
