import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Cli } from './cli.ts';
import { routeOf } from './route-of.ts';

/** Path parameters that accept a prefix of an ID, or a name. */
const LISTS: {
  readonly [parameter: string]: {
    readonly operation: keyof Client;
    readonly list?: string;
    readonly names: readonly string[];
    /** Words that stand for themselves. */
    readonly words?: readonly string[];
  };
} = {
  schedule_id: { operation: 'listSchedules', list: 'schedules', names: ['agent_name'] },
  service_id: { operation: 'listServices', list: 'services', names: ['service_name'] },
  destination_id: { operation: 'listDestinations', list: 'destinations', names: ['url'], words: ['calls'] },
  budget_id: { operation: 'listBudgets', list: 'budgets', names: ['window'] },
  task_id: { operation: 'listTasks', list: 'tasks', names: ['title'] },
  message_id: { operation: 'listMessages', list: 'messages', names: ['title'] },
  user_id: { operation: 'listMembers', list: 'members', names: ['email', 'name'] },
  invite_id: { operation: 'listMembers', list: 'invites', names: ['email'] },
};

/** Describes the accepted forms of a path parameter, for help. */
export function formsOf(parameter: string): string {
  const known = LISTS[parameter];
  if (known === undefined) return '';
  const names = known.names.map((name) => name.replaceAll('_', ' ')).join(' or ');
  return `ID, unique prefix of the ID, or ${names}`;
}

const PAGE = 200;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Resolves an ID, a prefix of an ID, or a name to an ID. Throws UsageError if none or several match. */
export async function findId(cli: Cli, parameter: string, given: string): Promise<string> {
  const known = LISTS[parameter];
  if (known === undefined || UUID.test(given) || known.words?.includes(given)) return given;
  const client = await cli.client();
  const list = client[known.operation] as (args: object) => Promise<Record<string, unknown>>;
  const params = { workspace_id: await cli.workspaceId() };
  const pages = 'offset' in (routeOf(known.operation).request?.query?.shape ?? {});
  const all: Record<string, unknown>[] = [];
  for (let isLast = false; !isLast; ) {
    const query = { limit: PAGE, ...(pages && { offset: all.length }) };
    const answer = await list({ params, query });
    const page = answer[known.list ?? ''] as Record<string, unknown>[];
    all.push(...page);
    isLast = !pages || page.length < PAGE;
  }
  const digits = given.replaceAll('-', '').toLowerCase();
  const found = all.filter(
    (item) =>
      known.names.some((name) => item[name] === given) ||
      (/^[0-9a-f]{4,}$/.test(digits) && String(item.id).replaceAll('-', '').startsWith(digits)),
  );
  if (found.length === 1) return String(found[0]!.id);
  const what = parameter.replace(/_id$/, '');
  if (found.length === 0) throw new UsageError(`No ${what} matches "${given}".`, { exitCode: 4 });
  const ids = found.map(({ id }) => String(id)).join(', ');
  throw new UsageError(`"${given}" is ambiguous: it matches ${ids}. Use the full ID.`);
}
