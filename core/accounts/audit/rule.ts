import { keyScopeOf, type Route } from '#core/http/route.ts';

/**
 * Whether the pipeline (`core/api/app.ts`) writes an audit entry for each request of a row. It does so for rows that
 * need a key with the scope `manage`, `approve` or `publish`, unless the row says that its handler does. Routes without a
 * user key write their own entries.
 */
export const isAudited = (route: Route): boolean =>
  route.auth === 'key' &&
  route.method !== 'GET' &&
  ['manage', 'approve', 'publish'].includes(keyScopeOf(route)) &&
  route.audit?.byHandler !== true;
