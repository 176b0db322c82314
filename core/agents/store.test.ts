import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import type { AgentDefinition } from './definition.ts';
import { AgentStore, findAnyVersion, listPublicVersions, resolveAgent } from './store.ts';
import { type AgentVersion, sunsetOf } from './version.ts';

const WORKSPACE: Workspace = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'ann',
  name: 'Ann',
  type: 'personal',
  createdAt: '2035-06-01T12:00:00.000Z',
};
const DAY = 24 * 3600 * 1000;

/** The store looks at these members only. */
const definition = (name: string, more: Partial<AgentDefinition> = {}): AgentDefinition =>
  ({ name, is_public: false, ...more }) as AgentDefinition;

function setUp() {
  const deps = memoryDeps();
  const store = new AgentStore(deps, WORKSPACE.id);
  const publish = (name = 'echo', runnable = true) => store.publish(definition(name), WORKSPACE, { runnable });
  return { deps, store, publish };
}

/** Runs work that backs off, on a clock that stands still. */
async function finish<T>(deps: MemoryDeps, work: Promise<T>): Promise<T> {
  let ended = false;
  const done = work.finally(() => {
    ended = true;
  });
  while (!ended) {
    await setImmediate();
    await deps.clock.advance(1);
  }
  return done;
}

describe('publishing', () => {
  test('numbers versions from 1, by name', async () => {
    const { publish, store } = setUp();
    expect((await publish('a')).version).toBe(1);
    expect((await publish('a')).version).toBe(2);
    expect((await publish('b')).version).toBe(1);
    expect(await store.nextVersion('a')).toBe(3);
    expect(await store.nextVersion('c')).toBe(1);
  });

  test('50 at once leave no gap and no double', async () => {
    const { deps, store, publish } = setUp();
    const versions = await finish(deps, Promise.all(Array.from({ length: 50 }, () => publish())));
    const numbers = versions.map(({ version }) => version).sort((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect((await store.listVersions('echo')).map(({ version }) => version)).toEqual(numbers);
    expect((await store.findVersion('echo', 'latest'))!.version).toBe(50);
  });

  test('a deleted number is not given out again', async () => {
    const { store, publish } = setUp();
    await store.remove(await publish());
    await store.remove(await publish());
    expect((await publish()).version).toBe(3);
  });

  test('a definition over 100 KB is read back whole', async () => {
    const { deps, store } = setUp();
    const large = definition('big', { prompt: 'x'.repeat(900_000), is_public: true });
    const { id } = await store.publish(large, WORKSPACE, { runnable: true });
    expect((await store.findVersion('big', 1))!.definition.prompt).toHaveLength(900_000);
    expect((await Array.fromAsync(listPublicVersions(deps)))[0]!.definition.prompt).toHaveLength(900_000);
    const changed = await store.update((await store.find(id))!, { ...large, prompt: 'short' });
    expect(changed!.definition.prompt).toBe('short');
    expect((await store.find(id))!.definition.prompt).toBe('short');
  });
});

describe('finding', () => {
  test('keeps to the workspace', async () => {
    const { deps, publish } = setUp();
    const { id } = await publish();
    expect(await new AgentStore(deps, 'another').find(id)).toBeUndefined();
    expect((await findAnyVersion(deps, id))!.id).toBe(id);
    expect(await findAnyVersion(deps, 'x')).toBeUndefined();
  });

  test.each(['v0', 'v01', 'v', '1', 'V1', 'v1.0', 'v100000', 'latest ', '', 'HEAD'])(
    'knows no version %j',
    async (version) => {
      const { deps, publish } = setUp();
      await deps.main.put({ pk: 'SLUG#ann', sk: 'META', workspace_id: WORKSPACE.id });
      await publish();
      expect(await resolveAgent(deps, 'ann', 'echo', version)).toBeUndefined();
      expect((await resolveAgent(deps, 'ann', 'echo', 'v1'))!.version).toBe(1);
    },
  );

  test('lists the public and runnable, the newest first', async () => {
    const { deps, store } = setUp();
    const open = { is_public: true };
    const names = ['a', 'b', 'c'];
    for (const name of names) {
      await deps.clock.advance(1000);
      await store.publish(definition(name, open), WORKSPACE, { runnable: name !== 'b' });
    }
    await store.publish(definition('private'), WORKSPACE, { runnable: true });
    expect((await Array.fromAsync(listPublicVersions(deps))).map(({ name }) => name)).toEqual(['c', 'a']);
    const a = (await store.findVersion('a', 1))!;
    await store.update(a, definition('a'));
    expect((await Array.fromAsync(listPublicVersions(deps))).map(({ name }) => name)).toEqual(['c']);
  });
});

describe('deprecation', () => {
  test('runs for 60 days from when a newer version could run', async () => {
    const { deps, store, publish } = setUp();
    const first = await publish();
    const second = await publish('echo', false);
    expect((await store.find(first.id))!.supersededAt).toBeUndefined();
    await deps.clock.advance(5 * DAY);
    await store.activate(second);
    expect(sunsetOf((await store.find(first.id))!)).toBe(deps.clock.now() + 60 * DAY);
  });

  test('does not start again when an old version is activated again', async () => {
    const { deps, store, publish } = setUp();
    const first = await publish();
    await publish();
    const before = (await store.find(first.id))!.supersededAt;
    await deps.clock.advance(DAY);
    await store.activate(first);
    expect((await store.find(first.id))!.supersededAt).toEqual(before);
  });

  test('ends when the newer versions are deleted', async () => {
    const { store, publish } = setUp();
    const first = await publish();
    await store.remove(await publish());
    expect((await store.find(first.id))!.supersededAt).toBeUndefined();
    expect((await store.findVersion('echo', 'latest'))!.id).toBe(first.id);
  });
});

test('a deleted version is found by nothing, and deleted once', async () => {
  const { deps, store } = setUp();
  const version = await store.publish(definition('gone', { is_public: true }), WORKSPACE, { runnable: true });
  expect(await store.remove(version)).toBe(true);
  expect(await store.remove(version)).toBe(false);
  expect(await store.find(version.id)).toBeUndefined();
  expect(await store.findVersion('gone', 1)).toBeUndefined();
  expect(await store.findVersion('gone', 'latest')).toBeUndefined();
  expect(await store.update(version, definition('gone'))).toBeUndefined();
  await store.activate(version);
  expect(await store.findVersion('gone', 'latest')).toBeUndefined();
  expect(await store.listAll()).toEqual([]);
  expect(await Array.fromAsync(listPublicVersions(deps))).toEqual([]);
});

/** What must hold of an agent's versions at any time. */
async function expectConsistent(store: AgentStore, name: string): Promise<void> {
  const versions = await store.listVersions(name);
  const runnable = versions.filter((version) => version.runnable);
  const latest = await store.findVersion(name, 'latest');
  expect(latest?.version).toBe(runnable.at(-1)?.version);
  const superseded = versions.filter((version) => version.supersededAt !== undefined).map(({ version }) => version);
  expect(superseded).toEqual(runnable.slice(0, -1).map(({ version }) => version));
}

type Step =
  | { readonly do: 'publish'; readonly runnable: boolean }
  | { readonly do: 'activate' | 'remove'; readonly which: number };
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('publish' as const), runnable: fc.boolean() }),
  fc.record({ do: fc.constantFrom('activate' as const, 'remove' as const), which: fc.nat(5) }),
);

function run(store: AgentStore, known: AgentVersion[], todo: Step): Promise<unknown> {
  if (todo.do === 'publish') {
    return store
      .publish(definition('echo'), WORKSPACE, { runnable: todo.runnable })
      .then((version) => known.push(version));
  }
  const version = known[todo.which % known.length];
  return version === undefined ? Promise.resolve() : store[todo.do](version);
}

describe('the newest live runnable version is current and supersedes the others', () => {
  test('after any sequence of steps', async () => {
    const property = fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const { deps, store } = setUp();
      const known: AgentVersion[] = [];
      for (const todo of steps) {
        await deps.clock.advance(1000);
        await run(store, known, todo);
        await expectConsistent(store, 'echo');
      }
    });
    await fc.assert(property, { numRuns: 100 });
  });

  test('after any steps at once', async () => {
    const property = fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 6 }),
      fc.array(step, { minLength: 2, maxLength: 6 }),
      fc.scheduler(),
      async (before, atOnce, scheduler) => {
        const { deps } = setUp();
        const store = new AgentStore(
          { ...deps, main: scheduled(deps.main, scheduler), clock: noWait(deps) },
          WORKSPACE.id,
        );
        const direct = new AgentStore(deps, WORKSPACE.id);
        const known: AgentVersion[] = [];
        for (const todo of before) await run(direct, known, todo);
        const present = [...known];
        const work = Promise.all(atOnce.map((todo) => run(store, present, todo)));
        await scheduler.waitFor(work);
        await expectConsistent(direct, 'echo');
      },
    );
    await fc.assert(property, { numRuns: 100 });
  });
});

/** The table, each request of which happens in the order that the scheduler says. */
function scheduled(table: MemoryDeps['main'], scheduler: fc.Scheduler): MemoryDeps['main'] {
  const later = <Args extends unknown[], T>(method: (...args: Args) => Promise<T>) => {
    return (...args: Args): Promise<T> => scheduler.schedule(Promise.resolve()).then(() => method.apply(table, args));
  };
  return {
    get: later(table.get),
    batchGet: later(table.batchGet),
    put: later(table.put),
    update: later(table.update),
    delete: later(table.delete),
    query: later(table.query),
    transact: later(table.transact),
  };
}

const noWait = ({ clock }: MemoryDeps) => ({ now: () => clock.now(), sleep: async () => {} });
