import { findUser } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { agentNameOf } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { taskRoutes } from './routes.ts';
import { TaskStore } from './store.ts';
import { membersFrom, taskView } from './view.ts';

type ListRow = Extract<(typeof taskRoutes)[number], { operationId: 'listTasks' }>;

export const taskHandlers = (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): Handlers<typeof taskRoutes> => {
  const storeOf = ({ workspace }: Caller) => new TaskStore(deps, workspace.id);

  const creatorOf = async ({ agent, userId }: Caller): Promise<string | null> =>
    agent ? agentNameOf(agent) : ((await findUser(deps, userId))?.email ?? null);

  async function list({ caller, query }: Pick<Incoming<ListRow>, 'caller' | 'query'>) {
    const { limit, offset, overdue, ...filter } = query;
    const dueBefore = overdue ? dateIn(deps.clock.now(), caller.workspace.timezone) : undefined;
    const { tasks, total } = await storeOf(caller).list({ ...filter, dueBefore }, { limit, offset });
    return { status: 200, body: { tasks: tasks.map(taskView), total } } as const;
  }

  return {
    async createTask({ caller, body }) {
      const task = await storeOf(caller).create(membersFrom(body), await creatorOf(caller));
      return { status: 201, body: taskView(task) };
    },

    listTasks: list,
    listWorkspaceTasks: list,

    async getTask({ caller, params }) {
      const task = await storeOf(caller).get(params.task_id);
      if (task === undefined) throw notFound(caller, params.task_id);
      return { status: 200, body: taskView(task) };
    },

    async updateTask({ caller, params, body }) {
      const task = await storeOf(caller).update(params.task_id, membersFrom(body));
      if (task === undefined) throw notFound(caller, params.task_id);
      return { status: 200, body: taskView(task) };
    },

    async deleteTask({ caller, params }) {
      if (!(await storeOf(caller).delete(params.task_id))) throw notFound(caller, params.task_id);
      return { status: 200, body: { deleted: true, id: params.task_id } };
    },
  };
};

const notFound = ({ workspace }: Caller, id: string): PlatformError =>
  new PlatformError('NOT_FOUND', `The workspace "${workspace.slug}" has no task "${id.slice(0, 64)}".`);

/** Returns the current date in a time zone, such as `2026-11-21`. */
const dateIn = (epochMs: number, timeZone = 'UTC'): string =>
  new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(epochMs);
