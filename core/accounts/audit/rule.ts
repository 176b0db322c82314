import { keyScopeOf, type Route } from '#core/http/route.ts';

/**
 * What people change in a workspace: rows that need a key with the scope `manage`, so a new row is in the audit log by itself.
 * The pipeline (`core/api/app.ts`) writes their entries. Rows without the key of a user, and {@link ELSEWHERE}, write their own.
 */
export const isAudited = (route: Route): boolean =>
  route.auth === 'key' &&
  route.method !== 'GET' &&
  keyScopeOf(route) === 'manage' &&
  !ELSEWHERE.includes(route.operationId);

/** Rows that change another workspace than the one that the request acts in. */
const ELSEWHERE = ['acceptInvite'];
