import { UsageError } from '#client/usage-error.ts';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';

/** Returns the row of an operation. Throws UsageError if it does not exist. */
export function routeOf(operation: string): Route {
  const route = (routes as readonly Route[]).find(({ operationId }) => operationId === operation);
  if (route === undefined)
    throw new UsageError(`There is no operation "${operation}". \`platform api --list\` lists them.`);
  return route;
}
