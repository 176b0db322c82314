import { isAudited } from '#core/accounts/audit/rule.ts';
import { keyScopeOf, pathParameters, type Route } from '#core/http/route.ts';

/** Returns the `description` of an operation in the OpenAPI document: who may use it, what it changes, and whether it is idempotent. */
export const operationText = (route: Route): string =>
  [...callersOf(route), ...changesOf(route), ...repeatsOf(route)].join(' ');

function callersOf(route: Route): string[] {
  switch (route.auth) {
    case 'key':
      return [ownerOf(route), ...agentsOf(route)];
    case 'optional':
      return ['Requires no key. With an API key, the response covers what its user may see.', ...agentsOf(route)];
    case 'public':
      return ['Requires no key.'];
    case 'webhook':
      return ['Requires no key: the secret in the path grants access.'];
    case 'signature':
      return ['For the payment provider: authenticated by the signature of the request.'];
    case 'sign-in':
      return ['Requires no key: part of the sign-in. Rate limited by client address.'];
    case 'operator':
      return ["Requires the key of the platform's operator."];
    case 'instance':
      return ["For the platform's own programs: requires the token of a service revision."];
  }
}

function ownerOf(route: Route): string {
  const scope = `Requires an API key with the scope \`${keyScopeOf(route)}\``;
  if (route.ofUser) return `${scope} that is not bound to one workspace.`;
  if (route.role === 'owner') return `${scope} of an owner of the workspace.`;
  return pathParameters(route.path).includes('workspace_id') ? `${scope} of a member of the workspace.` : `${scope}.`;
}

function agentsOf({ agents, scope }: Route): string[] {
  if (!agents) return [];
  if (scope === undefined) return ['Agents can use it with their service keys.'];
  return [`Agents can use it with their service keys; agents of other workspaces need the grant \`${scope}\`.`];
}

function changesOf(route: Route): string[] {
  if (route.method === 'GET' || route.changes === 'nothing') return ['Read-only.'];
  if (route.changes === 'own sign-in') return ['Changes only the sign-in state of the caller.'];
  return isAudited(route) || route.audit?.byHandler ? ['Recorded in the audit log.'] : [];
}

function repeatsOf({ method, changes, request }: Route): string[] {
  if (method === 'GET' || changes === 'nothing') return [];
  if (request?.headers?.shape['idempotency-key'] !== undefined) {
    return ['To retry safely, repeat the request with the same `Idempotency-Key`.'];
  }
  if (method === 'POST') return ['Not idempotent.'];
  if (method === 'DELETE') return ['Idempotent: repeated requests have no further effect.'];
  return ['Idempotent: repeated requests have no further effect.'];
}
