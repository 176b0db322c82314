import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { type AgentVersion, sunsetOf } from '#core/manifest/version.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { listPublicAgents } from './catalog/store.ts';
import { decideGate } from './gates/decide.ts';
import { listDueGates } from './gates/gate.ts';
import { makeCurrent, type PublishDeps, publish as publishVersion, removeVersions } from './publish.ts';
import { readHead, type VersionState } from './record.ts';
import { changeDefinition } from './retention/change-definition.ts';
import { AgentStore } from './store.ts';

const WORKSPACE: Workspace = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'ann',
  name: 'Ann',
  type: 'personal',
  createdAt: '2035-06-01T12:00:00.000Z',
};
const DAY = 24 * 3600 * 1000;

/** Only the members that publishing reads. */
const definition = (name: string, more: Partial<AgentDefinition> = {}): AgentDefinition =>
  ({ name, is_public: false, ...more }) as AgentDefinition;

/** Publishes, activates and removes versions; `told` are the agents whose listeners were called. */
function publisherOf(base: Omit<PublishDeps, 'listeners'>) {
  const told: string[] = [];
  const deps = {
    ...base,
    listeners: {
      async currentVersionChanged({ name }: { name: string }) {
        told.push(name);
        return { servicesUpdated: 0 };
      },
    },
  };
  return {
    told,
    publish: (name = 'echo', runnable = true, more: Partial<AgentDefinition> = {}, kind: Partial<VersionState> = {}) =>
      publishVersion(deps, WORKSPACE, definition(name, more), { runnable, ...kind }),
    decide: (version: AgentVersion, status: 'passed' | 'failed' | 'overridden') =>
      decideGate(deps, version, { status, verdict: null, reason: null, decidedBy: null }),
    activate: (version: AgentVersion) => makeCurrent(deps, version),
    remove: (...versions: [AgentVersion, ...AgentVersion[]]) => removeVersions(deps, versions[0], versions),
  };
}

function setUp() {
  const deps = memoryDeps();
  return { deps, store: new AgentStore(deps, WORKSPACE.id), ...publisherOf(deps) };
}

/** Advances the manual clock until work with backoff has ended. */
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

  test('50 concurrent publishes get 50 numbers without a gap', async () => {
    const { deps, store, publish } = setUp();
    const versions = await finish(deps, Promise.all(Array.from({ length: 50 }, () => publish())));
    const numbers = versions.map(({ version }) => version).sort((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect((await store.listVersions('echo')).map(({ version }) => version)).toEqual(numbers);
    expect((await store.findVersion('echo', 'latest'))!.version).toBe(50);
  });

  test('the number of a deleted version is not assigned again', async () => {
    const { publish, remove } = setUp();
    await remove(await publish());
    await remove(await publish());
    expect((await publish()).version).toBe(3);
  });

  test('an agent starts anew when it is published after all its versions were deleted', async () => {
    const { deps, store, publish, remove } = setUp();
    const first = await publish();
    await remove(first);
    const [second, third] = [await publish(), await publish()];
    expect([first, second, third].map(({ firstVersion }) => firstVersion)).toEqual([1, 2, 2]);
    await remove(second);
    expect((await store.findVersion('echo', 'latest'))!.firstVersion).toBe(2);
    // Concurrent deletions, in any order.
    await finish(deps, Promise.all([remove(third), remove(await publish()), remove(third)]));
    expect((await publish()).firstVersion).toBe(5);
  });

  test('a definition over 100 KB is read back completely', async () => {
    const { deps, store, publish } = setUp();
    const large = definition('big', { prompt: 'x'.repeat(900_000), is_public: true });
    const { id } = await publish('big', true, large);
    expect((await store.findVersion('big', 1))!.definition.prompt).toHaveLength(900_000);
    expect((await Array.fromAsync(listPublicAgents(deps)))[0]!.definition.prompt).toHaveLength(900_000);
    const changed = await changeDefinition(deps, (await store.find(id))!, { ...large, prompt: 'short' });
    expect(changed!.definition.prompt).toBe('short');
    expect((await store.find(id))!.definition.prompt).toBe('short');
  });
});

describe('deprecation', () => {
  test('runs for 60 days from when a newer version could run', async () => {
    const { deps, store, publish, activate } = setUp();
    const first = await publish();
    const second = await publish('echo', false);
    expect((await store.find(first.id))!.supersededAt).toBeUndefined();
    await deps.clock.advance(5 * DAY);
    await activate(second);
    expect(sunsetOf((await store.find(first.id))!)).toBe(deps.clock.now() + 60 * DAY);
  });

  test('does not start again when an old version is activated again', async () => {
    const { deps, store, publish, activate } = setUp();
    const first = await publish();
    await publish();
    const before = (await store.find(first.id))!.supersededAt;
    await deps.clock.advance(DAY);
    await activate(first);
    expect((await store.find(first.id))!.supersededAt).toEqual(before);
  });

  test('ends when the newer versions are deleted', async () => {
    const { store, publish, remove } = setUp();
    const first = await publish();
    await remove(await publish());
    expect((await store.find(first.id))!.supersededAt).toBeUndefined();
    expect((await store.findVersion('echo', 'latest'))!.id).toBe(first.id);
  });
});

test('nothing finds a deleted version, and deleting it again changes nothing', async () => {
  const { deps, store, publish, activate, remove } = setUp();
  const version = await publish('gone', true, { is_public: true });
  await remove(version);
  await remove(version);
  expect(await store.find(version.id)).toBeUndefined();
  expect(await store.findVersion('gone', 1)).toBeUndefined();
  expect(await store.findVersion('gone', 'latest')).toBeUndefined();
  expect(await changeDefinition(deps, version, definition('gone'))).toBeUndefined();
  await activate(version);
  expect(await store.findVersion('gone', 'latest')).toBeUndefined();
  expect(await store.listAll()).toEqual([]);
  expect(await Array.fromAsync(listPublicAgents(deps))).toEqual([]);
});

describe('the listeners are notified', () => {
  test('of a version that is current at once', async () => {
    const { publish, told } = setUp();
    await publish('echo');
    expect(told).toEqual(['echo']);
  });

  test('of a version without its code only when it is made current', async () => {
    const { publish, activate, told } = setUp();
    const version = await publish('echo', false);
    expect(told).toEqual([]);
    await activate(version);
    expect(told).toEqual(['echo']);
  });

  test('once of a removal of several versions, after the last of them', async () => {
    const { publish, remove, told } = setUp();
    const versions = [await publish(), await publish()] as const;
    told.length = 0;
    await remove(...versions);
    expect(told).toEqual(['echo']);
  });
});

/** Expects that the newest version that may be is current, that exactly the older ones of these are superseded, and one name a preview. */
async function expectConsistent(deps: MemoryDeps, store: AgentStore, name: string): Promise<void> {
  const versions = await store.listVersions(name);
  const open = versions.filter(({ runnable, gate, preview }) => {
    const isHeld = gate?.status === 'pending' || gate?.status === 'failed';
    return runnable && preview === undefined && !isHeld;
  });
  const latest = await store.findVersion(name, 'latest');
  expect(latest?.version).toBe(open.at(-1)?.version);
  const superseded = versions.filter((version) => version.supersededAt !== undefined).map(({ version }) => version);
  expect(superseded).toEqual(open.slice(0, -1).map(({ version }) => version));
  const previews = versions.filter(({ preview }) => preview !== undefined);
  const { previews: named } = await readHead(deps, WORKSPACE.id, name);
  expect(Object.values(named).map(({ version }) => version)).toEqual(previews.map(({ version }) => version));
  const waiting = versions.filter(({ runnable, gate }) => runnable && gate?.status === 'pending');
  const orders = (await Array.fromAsync(listDueGates(deps))).map(({ version }) => version);
  expect(orders).toEqual(expect.arrayContaining(waiting.map(({ version }) => version)));
}

type Step =
  | { readonly do: 'publish'; readonly runnable: boolean; readonly kind: keyof typeof KINDS }
  | { readonly do: 'decide'; readonly which: number; readonly status: 'passed' | 'failed' | 'overridden' }
  | { readonly do: 'activate' | 'remove'; readonly which: number };
const KINDS: { readonly [kind: string]: Partial<VersionState> } = {
  usual: {},
  gated: { gatedFor: { userId: 'u', isBound: false } },
  preview: { preview: 'pr-1' },
};
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('publish' as const),
    runnable: fc.boolean(),
    kind: fc.constantFrom('usual', 'gated', 'preview'),
  }),
  fc.record({ do: fc.constantFrom('activate' as const, 'remove' as const), which: fc.nat(5) }),
  fc.record({
    do: fc.constant('decide' as const),
    which: fc.nat(5),
    status: fc.constantFrom('passed', 'failed', 'overridden'),
  }),
);

async function run(publisher: ReturnType<typeof publisherOf>, known: AgentVersion[], todo: Step): Promise<void> {
  if (todo.do === 'publish') {
    known.push(await publisher.publish('echo', todo.runnable, {}, KINDS[todo.kind]));
    return;
  }
  const version = known[todo.which % known.length];
  if (version === undefined) return;
  if (todo.do === 'decide') await publisher.decide(version, todo.status);
  else await publisher[todo.do](version);
}

describe('the newest live version that may be current is, and supersedes the others', () => {
  test('after any sequence of steps', async () => {
    const property = fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const { deps, store, ...publisher } = setUp();
      const known: AgentVersion[] = [];
      for (const todo of steps) {
        await deps.clock.advance(1000);
        await run(publisher, known, todo);
        await expectConsistent(deps, store, 'echo');
      }
    });
    await fc.assert(property, { numRuns: 100 });
  });

  test('after any concurrent steps', async () => {
    const property = fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 6 }),
      fc.array(step, { minLength: 2, maxLength: 6 }),
      fc.scheduler(),
      async (before, atOnce, scheduler) => {
        const { deps, store, ...direct } = setUp();
        const racing = publisherOf({ ...deps, main: scheduled(deps.main, scheduler), clock: noWait(deps) });
        const known: AgentVersion[] = [];
        for (const todo of before) await run(direct, known, todo);
        const present = [...known];
        const work = Promise.all(atOnce.map((todo) => run(racing, present, todo)));
        await scheduler.waitFor(work);
        await expectConsistent(deps, store, 'echo');
      },
    );
    await fc.assert(property, { numRuns: 100 });
  });
});

/** A table whose requests run in the order chosen by the scheduler. */
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

const noWait = ({ clock }: MemoryDeps) => ({
  now: () => clock.now(),
  sleep: async () => {},
  after: clock.after.bind(clock),
});
