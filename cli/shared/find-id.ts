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
    /** Rows of a page. @default 200 */
    readonly page?: number;
    /** Beginning of the paths whose parameter it is, where others have one of the same name. */
    readonly path?: string;
  };
} = {
  schedule_id: { operation: 'listSchedules', list: 'schedules', names: ['agent_name'] },
  service_id: { operation: 'listServices', list: 'services', names: ['service_name'] },
  destination_id: { operation: 'listDestinations', list: 'destinations', names: ['url'], words: ['calls'] },
  trust_id: { operation: 'listTrusts', list: 'trusts', names: ['issuer'] },
  budget_id: { operation: 'listBudgets', list: 'budgets', names: ['window'] },
  task_id: { operation: 'listTasks', list: 'tasks', names: ['title'] },
  message_id: { operation: 'listMessages', list: 'messages', names: ['title'] },
  user_id: { operation: 'listMembers', list: 'members', names: ['email', 'name'] },
  session_id: {
    operation: 'listSessions',
    list: 'sessions',
    names: ['external_id', 'title'],
    page: 100,
    path: '/workspaces/{workspace_id}/sessions/',
  },
  invite_id: { operation: 'listMembers', list: 'invites', names: ['email'] },
};

const listOf = (parameter: string, path: string) => {
  const known = LISTS[parameter];
  return path.startsWith(known?.path ?? '') ? known : undefined;
};

/** Describes the accepted forms of a parameter of a path, for help. */
export function formsOf(parameter: string, path = ''): string {
  const known = listOf(parameter, path);
  if (known === undefined) return '';
  const names = known.names.map((name) => name.replaceAll('_', ' ')).join(' or ');
  return `ID, unique prefix of the ID, or ${names}`;
}

const PAGE = 200;
/** So many pages of a list with a cursor are looked through, such as that of sessions. */
const MAX_PAGES = 20;
const WHOLE_ID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9a-f]{32})$/i;

/** Resolves an ID, a prefix of an ID, or a name to an ID. Throws UsageError if none or several match. */
export async function findId(cli: Cli, parameter: string, given: string, path = ''): Promise<string> {
  const known = listOf(parameter, path);
  if (known === undefined || WHOLE_ID.test(given) || known.words?.includes(given)) return given;
  const client = await cli.client();
  const list = client[known.operation] as (args: object) => Promise<Record<string, unknown>>;
  const params = { workspace_id: await cli.workspaceId() };
  const shape = routeOf(known.operation).request?.query?.shape ?? {};
  const hasCursor = 'cursor' in shape;
  const hasOffset = !hasCursor && 'offset' in shape;
  const all: Record<string, unknown>[] = [];
  let cursor: unknown;
  for (let page = 1, isLast = false; !isLast; page++) {
    const query = {
      limit: known.page ?? PAGE,
      ...(hasOffset && { offset: all.length }),
      ...(cursor !== undefined && { cursor }),
    };
    const answer = await list({ params, query });
    const rows = answer[known.list ?? ''] as Record<string, unknown>[];
    all.push(...rows);
    cursor = hasCursor ? (answer.next_cursor ?? undefined) : undefined;
    isLast = hasCursor ? cursor === undefined || page === MAX_PAGES : !hasOffset || rows.length < PAGE;
  }
  const digits = digitsOf(given);
  const found = all.filter(
    (item) =>
      known.names.some((name) => item[name] === given) ||
      (/^[0-9a-f]{4,}$/.test(digits) && digitsOf(String(item.id)).startsWith(digits)),
  );
  if (found.length === 1) return String(found[0]!.id);
  const what = parameter.replace(/_id$/, '');
  if (found.length === 0) throw new UsageError(`No ${what} matches "${given}".`, { exitCode: 4 });
  const ids = found.map(({ id }) => String(id)).join(', ');
  throw new UsageError(`"${given}" is ambiguous: it matches ${ids}. Use the full ID.`);
}

const digitsOf = (id: string): string => id.replace(/^ses_/, '').replaceAll('-', '').toLowerCase();
