import { PRIORITIES, STATUSES } from '#core/collaboration/tasks/routes.ts';
import { TaskStore } from '#core/collaboration/tasks/store.ts';
import { benchGrowth } from './growth.ts';
import type { Row } from './harness.ts';
import type { DataStore } from './prepared-data.ts';

const DAY_MS = 24 * 3600 * 1000;

/** Measures a page of tasks among 100 tasks and among 100,000. */
export const benchTasks = (): Promise<Row[]> =>
  benchGrowth({
    what: 'tasks',
    few: 100,
    many: 100_000,
    maxRatio: 3,
    makeOne: makeTask,
    queries: [
      '/tasks',
      '/tasks?status=open',
      '/tasks?status=done&priority=low',
      '/tasks?project=project-3',
      '/tasks?project=project-3&priority=urgent',
      '/tasks?overdue=true',
      '/tasks?overdue=true&project=project-3',
    ],
  });

/** Returns tasks of ten projects with every status and priority, due within a year before or after now. */
function makeTask(deps: DataStore): (n: number) => Promise<unknown> {
  const store = new TaskStore(deps, deps.workspaceId);
  return (n) =>
    store.create(
      {
        title: `Task ${n}`,
        description: 'Look into it, and say what was found.',
        project: `project-${n % 10}`,
        status: STATUSES[Math.floor(n / 10) % 4],
        priority: PRIORITIES[Math.floor(n / 40) % 4],
        dueDate: new Date(deps.clock.now() + ((n % 730) - 365) * DAY_MS).toISOString().slice(0, 10),
      },
      'bench',
    );
}
