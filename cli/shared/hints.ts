import type { Client } from '#core/api/client.ts';

/**
 * Commands for the requests that messages of the API name, by operation. `{parameter}` is filled from the request's
 * path; operations without a row are shown as `platform api`.
 */
export const COMMANDS: { readonly [operation in keyof Client]?: string } = {
  putSecret: 'secrets set NAME',
  createSecret: 'secrets set NAME',
  putGrant: 'grants put {org}/{agent}',
  deployService: 'service deploy ORG/AGENT',
  listServices: 'service list',
  updateServiceVersion: 'service follow {service_id}',
  uploadBundle: 'publish',
  updateAgent: 'update AGENT',
  deleteAgent: 'delete AGENT',
  createCheckout: 'billing add DOLLARS',
  listTransactions: 'billing history',
  getOpenApi: 'api --list',
  getHealth: 'status',
};

/** A request in a sentence, perhaps with its body. */
const REQUEST = /\b(GET|POST|PUT|PATCH|DELETE) (\/[\w./{}~%-]*[\w}])(?:\?[\w=&.-]*[\w=])?(?: with (\{[^}]*\}))?/g;

/**
 * Replaces requests in a message or hint of the API with commands.
 *
 * @param secrets names of the secrets that the message is about
 */
export async function withCommands(text: string, secrets: readonly string[] = []): Promise<string> {
  if (text.search(REQUEST) < 0) return text;
  // Loaded here, because `--help` needs no routes.
  const { routes } = await import('#core/api/routes.ts');
  return text.replaceAll(REQUEST, (request: string, method: string, path: string, body?: string) => {
    for (const { operationId, method: own, path: template } of routes) {
      const values = own === method ? valuesOf(template, path) : undefined;
      if (values === undefined) continue;
      const command = (COMMANDS[operationId] ?? `api ${operationId}`).replaceAll(
        /\{(\w+)\}/g,
        (_, name: string) => values.get(name) ?? name,
      );
      const input = COMMANDS[operationId] === undefined ? '--input' : '--body';
      const whole = `platform ${command}${body === undefined ? '' : ` ${input} '${body}'`}`;
      const all = command.endsWith(' NAME') && secrets.length > 0 ? secrets : ['NAME'];
      return all.map((name) => `\`${whole.replace(/ NAME$/, ` ${name}`)}\``).join(' and ');
    }
    return request;
  });
}

/** Returns the path parameters, or `undefined` if the path does not match. */
function valuesOf(template: string, path: string): ReadonlyMap<string, string> | undefined {
  const parts = path.split('/');
  const names = template.split('/');
  if (parts.length !== names.length) return undefined;
  const values = new Map<string, string>();
  for (const [i, name] of names.entries()) {
    if (name.startsWith('{')) values.set(name.slice(1, -1), parts[i]!);
    else if (name !== parts[i]) return undefined;
  }
  return values;
}

/** Returns the names of secrets that an error says are missing; of model keys, where any one is enough, the first. */
export function missingSecretsOf(code: string, message: string): string[] {
  // The format of the message is documented (`docs/interface/errors.md#codes`).
  if (code === 'MISSING_SECRETS') return /not found in workspace: ([\w, ]+)/.exec(message)?.[1]?.split(', ') ?? [];
  if (code === 'LLM_KEY_REQUIRED') return /has no secret (\w+)/.exec(message)?.slice(1) ?? [];
  return [];
}
