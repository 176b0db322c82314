import { isAudited } from '#core/accounts/audit/rule.ts';
import { keyScopeOf, pathParameters, type Route } from '#core/http/route.ts';

/** `description` of an operation in the OpenAPI document: who may use it, what it changes, and what repeating it does. As the row says. */
export const operationText = (route: Route): string =>
  [...callersOf(route), ...changesOf(route), ...repeatsOf(route)].join(' ');

function callersOf(route: Route): string[] {
  switch (route.auth) {
    case 'key':
      return [ownerOf(route), ...agentsOf(route)];
    case 'optional':
      return ['Needs no key. With an API key, the answer is about what its user may see.', ...agentsOf(route)];
    case 'public':
      return ['Needs no key.'];
    case 'webhook':
      return ['Needs no key: the secret in the path opens it.'];
    case 'signature':
      return ["For the payment provider: the request's signature opens it."];
    case 'sign-in':
      return ['Needs no key: it is a step of signing in. Each attempt counts for the address of its client.'];
    case 'operator':
      return ["Needs the key of the platform's operator."];
    case 'instance':
      return ["For the platform's own programs: the token of a service's revision opens it."];
  }
}

function ownerOf(route: Route): string {
  const scope = `Needs an API key with the scope \`${keyScopeOf(route)}\``;
  if (route.ofUser) return `${scope} that is not bound to one workspace.`;
  if (route.role === 'owner') return `${scope} of an owner of the workspace.`;
  return pathParameters(route.path).includes('workspace_id') ? `${scope} of a member of the workspace.` : `${scope}.`;
}

function agentsOf({ agents, scope }: Route): string[] {
  if (!agents) return [];
  if (scope === undefined) return ['Agents may use it with their service keys.'];
  return [`Agents may use it with their service keys; those of other workspaces need a grant of \`${scope}\`.`];
}

function changesOf(route: Route): string[] {
  if (route.method === 'GET' || route.changes === 'nothing') return ['It changes nothing.'];
  if (route.changes === 'own sign-in') return ['It changes only how the caller is signed in.'];
  return isAudited(route) || route.audit?.byHandler ? ['The audit log keeps who did it.'] : [];
}

function repeatsOf({ method, changes, request }: Route): string[] {
  if (method === 'GET' || changes === 'nothing') return [];
  if (request?.headers?.shape['idempotency-key'] !== undefined) {
    return ['Repeat a request safely with the same `Idempotency-Key`.'];
  }
  if (method === 'POST') return ['Each request acts anew.'];
  if (method === 'DELETE') return ['A repeated request finds nothing left to remove.'];
  return ['A repeated request leaves what the first one made.'];
}
