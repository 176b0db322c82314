import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { PRIORITIES, STATUSES } from './routes.ts';
import { type Task, type TaskFilter, type TaskMembers, TaskStore } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const PROJECTS = ['ops', 'open#high', 'ünï 𝒞'];
const DATES = ['2035-05-31', '2035-06-01', '2035-06-02', '2034-12-31', '2036-02-29'];

const orNull = <T>(values: readonly T[]) => fc.constantFrom(null, ...values);
const anyMembers: fc.Arbitrary<TaskMembers> = fc.record(
  {
    title: fc.string({ minLength: 1 }),
    dueDate: orNull(DATES),
    project: orNull(PROJECTS),
    priority: fc.constantFrom(...PRIORITIES),
    status: fc.constantFrom(...STATUSES),
  },
  { requiredKeys: [] },
);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('create' as const), members: anyMembers, at: fc.nat(20) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('update' as const), members: anyMembers, at: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), members: anyMembers, at: fc.nat(20) }) },
);
const anyFilter: fc.Arbitrary<TaskFilter> = fc.record(
  {
    status: fc.constantFrom(...STATUSES),
    priority: fc.constantFrom(...PRIORITIES),
    project: fc.constantFrom(...PROJECTS, 'nobody’s'),
    dueBefore: fc.constantFrom('2035-06-02', '2035-01-01', '2037-01-01'),
  },
  { requiredKeys: [] },
);

/** Returns the expected list for a filter, from a scan of all tasks. */
function expected(tasks: Iterable<Task>, { status, priority, project, dueBefore }: TaskFilter): Task[] {
  const wanted = [...tasks].filter(
    (task) =>
      (status === undefined || task.status === status) &&
      (priority === undefined || task.priority === priority) &&
      (project === undefined || task.project === project) &&
      (dueBefore === undefined || (task.status === 'open' && task.dueDate !== null && task.dueDate < dueBefore)),
  );
  const place = ({ status, priority, dueDate, createdAt }: Task) => [
    STATUSES.indexOf(status),
    PRIORITIES.indexOf(priority),
    status === 'open' || status === 'in_progress' ? Date.parse(dueDate ?? '9999-01-01') : 0,
    -Date.parse(createdAt),
  ];
  return wanted.sort((a, b) => {
    const [x, y] = [place(a), place(b)];
    const differing = x.findIndex((part, i) => part !== y[i]);
    return differing < 0 ? 0 : x[differing]! - y[differing]!;
  });
}

test('lists and totals match the tasks after any sequence of changes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 25 }),
      fc.array(anyFilter, { minLength: 4, maxLength: 8 }),
      async (steps, filters) => {
        const deps = memoryDeps();
        const store = new TaskStore(deps, WORKSPACE);
        const tasks = new Map<string, Task>();
        for (const { kind, members, at } of steps) {
          await deps.clock.advance(1);
          const id = [...tasks.keys()][at % Math.max(1, tasks.size)] ?? 'none';
          if (kind === 'create') {
            const task = await store.create({ title: 'x', ...members }, null);
            tasks.set(task.id, task);
          } else if (kind === 'update') {
            const task = await store.update(id, members);
            expect(task !== undefined).toBe(tasks.has(id));
            if (task) tasks.set(id, task);
          } else {
            expect(await store.delete(id)).toBe(tasks.delete(id));
          }
        }
        for (const filter of [{}, ...filters]) {
          const all = expected(tasks.values(), filter);
          expect(await store.list(filter, { limit: 200, offset: 0 })).toEqual({ tasks: all, total: all.length });
          expect((await store.list(filter, { limit: 3, offset: 2 })).tasks).toEqual(all.slice(2, 5));
        }
      },
    ),
    { numRuns: 60 },
  );
});

describe('concurrent writes', () => {
  test('all changes of one task are counted, one after the other', async () => {
    const store = new TaskStore({ ...memoryDeps(), clock: new SystemClock() }, WORKSPACE);
    const { id } = await store.create({ title: 'busy', project: 'ops', dueDate: '2035-05-31' }, null);
    const changes = STATUSES.flatMap((status) => PRIORITIES.map((priority) => store.update(id, { status, priority })));
    const [deleted] = await Promise.all([store.delete(id), ...changes]);
    expect(deleted).toBe(true);
    for (const filter of [{}, { project: 'ops' }, { dueBefore: '2036-01-01' }]) {
      expect(await store.list(filter, { limit: 50, offset: 0 })).toEqual({ tasks: [], total: 0 });
    }
  });
});

test('the cost of a page does not depend on the number of tasks', async () => {
  const deps = memoryDeps();
  const counter = new OperationCounter();
  const store = new TaskStore({ ...deps, main: counter.count(deps.main) }, WORKSPACE);
  for (let n = 0; n < 300; n++) {
    await store.create(
      {
        title: `${n}`,
        priority: PRIORITIES[n % 4],
        status: STATUSES[n % 3],
        project: `p${n % 8 < 4 ? 0 : 1}`,
        dueDate: DATES[n % 5],
      },
      null,
    );
  }
  const filters = [
    {},
    { status: 'open' },
    { project: 'p1' },
    { priority: 'low', project: 'p0' },
    { dueBefore: '2036-01-01' },
  ];
  for (const filter of filters as TaskFilter[]) {
    counter.operations.length = 0;
    const { tasks } = await store.list(filter, { limit: 20, offset: 10 });
    expect(tasks).toHaveLength(20);
    // At most thirty tasks, plus the counts for three months of due dates.
    expect(counter.items, JSON.stringify(filter)).toBeLessThanOrEqual(35);
  }
});
