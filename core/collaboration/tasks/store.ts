import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { PRIORITIES, STATUSES } from './routes.ts';

/**
 * Main table, all written in the transaction that changes a task, so that the cost of a filtered page and its total
 * does not grow with the number of tasks:
 *
 * - `WS#<workspace id>#TASKS / <task id>`: the task. gsi1 lists it by status and priority, gsi2 by project, status and
 *   priority, both by due date, then newest first;
 * - `WS#<workspace id>#TASK_COUNTS / ALL` and `PROJECT#<project>`: the lengths of these lists, `<status>_<priority>`;
 * - `WS#<workspace id>#TASKS_DUE / <month>` and `WS#<workspace id>#TASKS_DUE#<project> / <month>`: the number of open
 *   tasks due on a day, `<day>_<priority>`;
 * - `WS#<workspace id>#TASK_CHANGES / <time>#<id>`: a change, for watchers of the workspace, with expiry.
 */
export interface Task {
  readonly id: string;
  readonly title: string;
  readonly description: string | null;
  /** `2026-11-21`. */
  readonly dueDate: string | null;
  readonly project: string | null;
  readonly priority: Priority;
  readonly status: Status;
  readonly createdBy: string | null;
  readonly createdAt: string;
  readonly completedAt: string | null;
}

type Status = (typeof STATUSES)[number];
type Priority = (typeof PRIORITIES)[number];

/**
 * Members of a task that users and agents set. Undefined members are left unchanged, or get their default in a new
 * task.
 */
export type TaskMembers = {
  readonly [Name in 'title' | 'description' | 'dueDate' | 'project' | 'priority' | 'status']?: Task[Name] | undefined;
};

export type NewTask = TaskMembers & { readonly title: string };

export interface TaskFilter {
  readonly status?: Status;
  readonly priority?: Priority;
  readonly project?: string;
  /** Only open tasks whose due date is before this date. */
  readonly dueBefore?: string;
}

/** The tasks of one status and priority, and their number. */
interface List {
  readonly status: Status;
  readonly priority: Priority;
  readonly count: number;
}

/** Thirteen digits of milliseconds sort numerically until the year 2286. */
const LAST_MS = 9_999_999_999_999;
/** Longer than the maximum look-back of a watcher. */
const CHANGES_KEPT_SECONDS = 2 * 3600;

const changesPartition = (partition: string): string => `${partition}#TASK_CHANGES`;

/** A change of a task, for watchers. */
export interface TaskChange {
  readonly id: string;
  /** ISO 8601. */
  readonly at: string;
  readonly task: { readonly [member: string]: Json };
}

/** Stores the tasks of one workspace. */
export class TaskStore {
  readonly #deps: Pick<Deps, 'main' | 'clock' | 'ids'>;
  readonly #partition: string;

  constructor(deps: Pick<Deps, 'main' | 'clock' | 'ids'>, workspaceId: string) {
    this.#deps = deps;
    this.#partition = `WS#${workspaceId}`;
  }

  async create(members: NewTask, createdBy: string | null): Promise<Task> {
    const task = this.#new(this.#deps.ids.uuid(), members, createdBy);
    await this.#retry(async () => (await this.#write({ task, revision: 0 }, undefined)) || undefined);
    return task;
  }

  /** Creates a task with this id, unless there is one. */
  async ensure(id: string, members: NewTask, createdBy: string | null): Promise<void> {
    const task = this.#new(id, members, createdBy);
    await this.#retry(async () => {
      if ((await this.#find(id)) !== undefined) return true;
      return (await this.#write({ task, revision: 0 }, undefined)) || undefined;
    });
  }

  #new(id: string, members: NewTask, createdBy: string | null): Task {
    const { title, description = null, dueDate = null, project = null } = members;
    const { priority = 'normal', status = 'open' } = members;
    const createdAt = isoTime(this.#deps.clock.now());
    const completedAt = status === 'done' ? createdAt : null;
    return { id, title, description, dueDate, project, priority, status, createdBy, createdAt, completedAt };
  }

  async get(id: string): Promise<Task | undefined> {
    return (await this.#find(id))?.task;
  }

  /** Updates a task. Returns `undefined` if it does not exist. */
  async update(id: string, changes: TaskMembers): Promise<Task | undefined> {
    return this.#retry(async () => {
      const before = await this.#find(id);
      if (before === undefined) return { task: undefined };
      const task = { ...before.task, ...withoutUndefined(changes) };
      const after = { ...task, completedAt: this.#completedAt(before.task, task.status) };
      return (await this.#write({ task: after, revision: before.revision + 1 }, before)) ? { task: after } : undefined;
    }).then(({ task }) => task);
  }

  /** Deletes a task. Returns false if it does not exist. */
  async delete(id: string): Promise<boolean> {
    return this.#retry(async () => {
      const before = await this.#find(id);
      if (before === undefined) return false;
      return (await this.#write(undefined, before)) || undefined;
    });
  }

  /** Returns the changes since a time (epoch milliseconds), oldest first. */
  async changesSince(since: number, max: number): Promise<TaskChange[]> {
    const query = { pk: changesPartition(this.#partition), sk: { greaterThan: isoTime(since) }, limit: max };
    return (await this.#deps.main.query(query)).items.map(({ sk, task }) => {
      const [at, id] = sk.split('#') as [string, string];
      return { id, at, task: task as TaskChange['task'] };
    });
  }

  /** Returns a page, most urgent first (by status, priority, due date, then newest), and the total of all pages. */
  async list(
    filter: TaskFilter,
    { limit, offset }: { readonly limit: number; readonly offset: number },
  ): Promise<{ tasks: Task[]; total: number }> {
    const lists = await this.#lists(filter);
    const parts: Promise<Task[]>[] = [];
    let [skip, left] = [offset, limit];
    for (const list of lists) {
      const take = Math.min(left, list.count - skip);
      if (take > 0) {
        parts.push(this.#read(list, filter, { skip, take }));
        left -= take;
      }
      skip = Math.max(0, skip - list.count);
    }
    const total = lists.reduce((sum, { count }) => sum + count, 0);
    return { tasks: (await Promise.all(parts)).flat(), total };
  }

  async #lists(filter: TaskFilter): Promise<List[]> {
    const { dueBefore } = filter;
    const countOf = dueBefore === undefined ? await this.#counts(filter) : await this.#dueCounts(filter, dueBefore);
    const wanted = STATUSES.filter((status) => status === (filter.status ?? status));
    return wanted.flatMap((status) =>
      PRIORITIES.filter((priority) => priority === (filter.priority ?? priority)).map((priority) => ({
        status,
        priority,
        count: countOf(status, priority),
      })),
    );
  }

  async #counts({ project }: TaskFilter): Promise<(status: Status, priority: Priority) => number> {
    const item = await this.#deps.main.get(this.#countsKey(project));
    return (status, priority) => (item?.[`${status}_${priority}`] as number | undefined) ?? 0;
  }

  async #dueCounts({ project }: TaskFilter, before: string): Promise<(status: Status, priority: Priority) => number> {
    const { pk, sk: lastMonth } = this.#dueKey(project, before);
    const sums = new Map<string, number>();
    const months = queryAll(this.#deps.main, { pk, sk: { between: ['0', lastMonth] }, limit: 1000 });
    for await (const { pk: _, sk: month, ...days } of months) {
      for (const [name, count] of Object.entries(days)) {
        const [day, priority] = name.split('_') as [string, string];
        if (`${month}-${day}` < before) sums.set(priority, (sums.get(priority) ?? 0) + (count as number));
      }
    }
    return (status, priority) => (status === 'open' ? (sums.get(priority) ?? 0) : 0);
  }

  async #read(
    list: List,
    { project, dueBefore }: TaskFilter,
    { skip, take }: { readonly skip: number; readonly take: number },
  ): Promise<Task[]> {
    const end = skip + take;
    const items: Item[] = [];
    const found = queryAll(this.#deps.main, {
      ...(project === undefined
        ? { index: 'gsi1', pk: this.#listPartition(list) }
        : { index: 'gsi2', pk: this.#listPartition(list, project) }),
      ...(dueBefore !== undefined && { sk: { lessThan: dueBefore } }),
      limit: Math.min(end, 1000),
    });
    for await (const item of found) {
      if (items.push(item) === end) break;
    }
    return items.slice(skip).map(fromItem);
  }

  async #find(id: string): Promise<Stored | undefined> {
    const item = await this.#deps.main.get({ pk: `${this.#partition}#TASKS`, sk: id });
    return item && { task: fromItem(item), revision: item.revision as number };
  }

  /** Set when the task becomes done, cleared when it is reopened. */
  #completedAt(before: Task, status: Status): string | null {
    if (status === 'open' || status === 'in_progress') return null;
    if (status === 'done' && before.status !== 'done') return isoTime(this.#deps.clock.now());
    return before.completedAt;
  }

  /** Returns false if another process changed the task first. */
  async #write(after: Stored | undefined, before: Stored | undefined): Promise<boolean> {
    const condition = before ? equals('revision', before.revision) : absent();
    const { id } = (after ?? before)!.task;
    const write: TransactOperation = after
      ? { op: 'put', item: this.#item(after), condition }
      : { op: 'delete', key: { pk: `${this.#partition}#TASKS`, sk: id }, condition };
    const counts = this.#countChanges(before?.task, after?.task);
    return (await this.#deps.main.transact([write, ...counts, this.#noteOf(after, before)])).ok;
  }

  #noteOf(after: Stored | undefined, before: Stored | undefined): TransactOperation {
    const { clock, ids } = this.#deps;
    const now = clock.now();
    const change = after === undefined ? 'deleted' : before === undefined ? 'created' : 'updated';
    const { id, title, status, priority, project, createdBy } = (after ?? before)!.task;
    return {
      op: 'put',
      item: {
        pk: changesPartition(this.#partition),
        sk: `${isoTime(now)}#${ids.ordinal()}#${ids.uuid()}`,
        task: { id, title, status, priority, project, created_by: createdBy, change },
        ttl: epochSeconds(now) + CHANGES_KEPT_SECONDS,
      },
    };
  }

  #item({ task, revision }: Stored): Item {
    const { id, status, priority, project, dueDate, createdAt } = task;
    const isPending = status === 'open' || status === 'in_progress';
    const newestFirst = String(LAST_MS - Date.parse(createdAt)).padStart(13, '0');
    // The tilde sorts after every digit.
    const place = `${(isPending && dueDate) || '~'}#${newestFirst}#${id}`;
    return {
      pk: `${this.#partition}#TASKS`,
      sk: id,
      ...attributesOf(task),
      revision,
      gsi1pk: this.#listPartition({ status, priority }),
      gsi1sk: place,
      ...(project !== null && { gsi2pk: this.#listPartition({ status, priority }, project), gsi2sk: place }),
    };
  }

  /** Returns at most seven operations: the counts of all tasks and of two projects, and two months of each. */
  #countChanges(before: Task | undefined, after: Task | undefined): TransactOperation[] {
    const changes = new Map<string, { key: Key; add: Record<string, number> }>();
    for (const [task, amount] of [[before, -1] as const, [after, 1] as const]) {
      for (const { key, attribute } of task ? this.#countedIn(task) : []) {
        const name = `${key.pk}\n${key.sk}`;
        const { add } = changes.get(name) ?? { key, add: {} };
        changes.set(name, { key, add: { ...add, [attribute]: (add[attribute] ?? 0) + amount } });
      }
    }
    return [...changes.values()]
      .map(({ key, add }) => ({
        key,
        add: Object.fromEntries(Object.entries(add).filter(([, amount]) => amount !== 0)),
      }))
      .filter(({ add }) => Object.keys(add).length > 0)
      .map(({ key, add }) => ({ op: 'update', key, changes: { add } }));
  }

  #countedIn({ status, priority, project, dueDate }: Task): { key: Key; attribute: string }[] {
    const scopes = project === null ? [undefined] : [undefined, project];
    return scopes.flatMap((scope) => [
      { key: this.#countsKey(scope), attribute: `${status}_${priority}` },
      ...(status === 'open' && dueDate !== null
        ? [{ key: this.#dueKey(scope, dueDate), attribute: `${dueDate.slice(8)}_${priority}` }]
        : []),
    ]);
  }

  #countsKey(project: string | undefined): Key {
    return { pk: `${this.#partition}#TASK_COUNTS`, sk: project === undefined ? 'ALL' : `PROJECT#${project}` };
  }

  #dueKey(project: string | undefined, date: string): Key {
    const pk = `${this.#partition}#TASKS_DUE`;
    return { pk: project === undefined ? pk : `${pk}#${project}`, sk: date.slice(0, 7) };
  }

  #listPartition({ status, priority }: Pick<List, 'status' | 'priority'>, project?: string): string {
    const pk = `${this.#partition}#TASKS#${status}#${priority}`;
    return project === undefined ? pk : `${pk}#${project}`;
  }

  #retry<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    return retryOnConflict(this.#deps.clock, `a task of ${this.#partition}`, attempt);
  }
}

/** A task, and the number of its changes. */
interface Stored {
  readonly task: Task;
  readonly revision: number;
}

function fromItem(item: Item): Task {
  return {
    id: item.id as string,
    title: item.title as string,
    description: item.description as string | null,
    dueDate: item.due_date as string | null,
    project: item.project as string | null,
    priority: item.priority as Priority,
    status: item.status as Status,
    createdBy: item.created_by as string | null,
    createdAt: item.created_at as string,
    completedAt: item.completed_at as string | null,
  };
}

const attributesOf = ({ dueDate, createdBy, createdAt, completedAt, ...task }: Task) => ({
  ...task,
  due_date: dueDate,
  created_by: createdBy,
  created_at: createdAt,
  completed_at: completedAt,
});

const withoutUndefined = (members: TaskMembers): Partial<Task> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
