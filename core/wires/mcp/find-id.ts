import { PlatformError } from '#core/base/errors.ts';
import type { Operations } from './operations.ts';

/** Parameters that accept a prefix of an ID, or a name. */
const LISTS: {
  readonly [parameter: string]: { readonly operation: string; readonly list: string; readonly name: string };
} = {
  schedule_id: { operation: 'listSchedules', list: 'schedules', name: 'agent_name' },
  task_id: { operation: 'listTasks', list: 'tasks', name: 'title' },
};

const WHOLE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const RUN_ID = /^(req_)?(-?[0-9a-f]){7,32}$/i;
const PAGE = 200;

/** Resolves an ID, a prefix of an ID, or a name. Throws NOT_FOUND if none matches, and INVALID_INPUT if several do. */
export async function findId(operations: Operations, parameter: string, given: string): Promise<string> {
  const known = LISTS[parameter];
  if (known === undefined || WHOLE_ID.test(given)) return given;
  const answer = (await operations.send(known.operation, { query: { limit: PAGE } })) as {
    readonly [list: string]: readonly { readonly [member: string]: unknown }[];
  };
  const digits = digitsOf(given);
  const found = answer[known.list]!.filter(
    (item) =>
      item[known.name] === given || (/^[0-9a-f]{4,}$/.test(digits) && digitsOf(String(item.id)).startsWith(digits)),
  );
  if (found.length === 1) return String(found[0]!.id);
  const what = parameter.replace(/_id$/, '');
  if (found.length === 0) throw new PlatformError('NOT_FOUND', `No ${what} matches "${given}".`);
  const ids = found.map(({ id }) => String(id)).join(', ');
  throw new PlatformError('INVALID_INPUT', `"${given}" is ambiguous: it matches ${ids}. Use the full ID.`);
}

/** Returns the ID of a run, given it, a prefix of it, a request ID, or an agent (its latest run). Throws NOT_FOUND. */
export async function findRun(operations: Operations, given: string): Promise<string> {
  if (RUN_ID.test(given)) return given;
  const agent_name = given.split('/').at(-1)!.split('@')[0]!;
  const { runs } = (await operations.send('listRuns', { query: { agent_name, limit: 1 } })) as {
    readonly runs: readonly { readonly id: string }[];
  };
  const [newest] = runs;
  if (newest === undefined) throw new PlatformError('NOT_FOUND', `No run or agent with runs matches "${given}".`);
  return newest.id;
}

const digitsOf = (id: string): string => id.replaceAll('-', '').toLowerCase();
