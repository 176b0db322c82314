import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Plan } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition, SkillFile } from '#core/manifest/definition.ts';
import { type AgentVersion, newBundleKey, newLayerKey } from '#core/manifest/version.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import type { Table } from '#core/ports/table.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { evalContentsOf, evalFilesKey } from '../eval-files.ts';
import { makeCurrent, publish, removeVersions } from '../publish.ts';
import { versionKey } from '../record.ts';
import { skillFilesKey } from '../skills/skill-contents.ts';
import { AgentStore } from '../store.ts';
import { announceBlob } from './blobs.ts';
import { attachBundle, attachLayer } from './builds.ts';
import { changeDefinition } from './change-definition.ts';
import { collectGarbage } from './removal.ts';
import { agentUse } from './storage-usage.ts';

const DAY_MS = 24 * 3600 * 1000;
const workspaceOf = (slug: string): Workspace => ({
  id: slug,
  slug,
  name: slug,
  type: 'team',
  createdAt: '',
  plan: 'free',
});
const WORKSPACES = [workspaceOf('home'), workspaceOf('away')] as const;
const LARGE = 'x'.repeat(120_000);

type KeptDeps = Pick<MemoryDeps, 'main' | 'blobs' | 'clock' | 'ids' | 'config' | 'log'>;

function setUp(limits: Partial<Plan> = {}) {
  const base = memoryDeps();
  const free = { ...base.config.plans.free, agent_versions: null, agent_bytes: null, ...limits };
  const config = { ...base.config, defaultPlan: 'free' as const, plans: { ...base.config.plans, free } };
  // Nothing sleeps: the clock only advances between steps.
  const clock = Object.assign(Object.create(base.clock) as typeof base.clock, {
    now: () => base.clock.now(),
    sleep: async () => {},
  });
  const deps: KeptDeps = { ...base, config, clock };
  const advance = (ms: number) => base.clock.advance(ms);
  return { deps, advance, blobs: () => Array.fromAsync(base.blobs.list('')) };
}

/** Stored in a blob beside the definition. */
const BINARY: SkillFile = { path: 'a', content: 'AAAA', size: 3, encoding: 'base64' };

const definition = (name: string, prompt = '', skill_files: readonly SkillFile[] = []): AgentDefinition =>
  ({ name, is_public: true, prompt, skill_files }) as unknown as AgentDefinition;

/** Publishes a program without its code; a large one has further files, too. */
const publishProgram = (deps: KeptDeps, workspace: Workspace = WORKSPACES[0], prompt = '') => {
  const files = prompt === LARGE ? [BINARY] : [];
  const evals = prompt === LARGE ? evalContentsOf({ 'evals/a.yaml': 'tests: [{}]' }) : undefined;
  return publish(withoutListeners(deps), workspace, definition('program', prompt, files), { runnable: false, evals });
};

async function uploadCode(deps: KeptDeps, version: AgentVersion, code: string, hash?: string): Promise<AgentVersion> {
  const runId = deps.ids.uuid();
  const sha256 = createHash('sha256').update(code).digest('hex');
  const key = newBundleKey(sha256, runId);
  await announceBlob(deps, key);
  await deps.blobs.put(key, Buffer.from(code));
  const bundle = { sha256, key, sizeBytes: code.length, entrypoint: null, uploadedAt: '' };
  const layer = hash && newLayerKey(hash, runId);
  const install = layer ? { status: 'building' as const, layer, runId, deadline: 0 } : undefined;
  const stored = await attachBundle(deps, version, { bundle, install });
  if (hash === undefined || layer === undefined) return stored;
  const known = await attachLayer(deps, stored, hash);
  if (known) return known;
  await announceBlob(deps, layer);
  await deps.blobs.put(layer, Buffer.alloc(hash.length * 100));
  return (await attachLayer(deps, stored, hash, { key: layer, bytes: hash.length * 100, sha256: hash })) ?? stored;
}

async function copy(deps: KeptDeps, source: AgentVersion, workspace: Workspace): Promise<AgentVersion> {
  const { runnable, bundle, install } = source;
  const state = { runnable, bundle, install, copyOf: source };
  return publish(withoutListeners(deps), workspace, definition('copied'), state);
}

/** Computes the storage of a workspace from the items of the `known` versions. */
async function expectedUse({ main }: KeptDeps, known: Iterable<AgentVersion>, workspaceId: string) {
  let [versions, bytes] = [0, 0];
  const layers = new Map<string, number>();
  for (const version of known) {
    if (version.workspaceId !== workspaceId) continue;
    // biome-ignore lint/suspicious/noExplicitAny: an item as it is stored.
    const item = (await main.get(versionKey(version))) as any;
    versions += 1;
    bytes +=
      item.definition_bytes + (item.contents_bytes ?? 0) + (item.evals_bytes ?? 0) + (item.bundle?.size_bytes ?? 0);
    if (item.install?.held_layer) layers.set(item.install.held_layer, item.install.held_layer.length * 100);
  }
  for (const size of layers.values()) bytes += size;
  return { versions, bytes };
}

async function listAll(deps: KeptDeps): Promise<AgentVersion[]> {
  const lists = WORKSPACES.map(({ id }) => new AgentStore(deps, id).listAll());
  return (await Promise.all(lists)).flat();
}

/** Expects that each live version has its blobs and that the counters match the stored data. */
async function expectExact(deps: KeptDeps, known: ReadonlyMap<string, AgentVersion>): Promise<void> {
  for (const { id, bundle, install, contentsBytes, evalFiles } of await listAll(deps)) {
    if (bundle) expect(await deps.blobs.size(bundle.key!)).toBe(bundle.sizeBytes);
    if (install?.heldLayer) expect(await deps.blobs.size(install.layer)).toBe(install.heldLayer.length * 100);
    if (contentsBytes) expect(await deps.blobs.size(skillFilesKey(id))).toBe(contentsBytes);
    if (evalFiles) expect(await deps.blobs.size(evalFilesKey(id))).toBe(evalFiles.bytes);
  }
  for (const { id } of WORKSPACES)
    expect(await agentUse(deps, id)).toEqual(await expectedUse(deps, known.values(), id));
}

/** Removes and purges all versions, and expects that nothing remains. */
async function expectNothingLeft({ deps, advance, blobs }: ReturnType<typeof setUp>): Promise<void> {
  for (const version of await listAll(deps)) await removeVersions(withoutListeners(deps), version, [version]);
  await advance(31 * DAY_MS);
  for (let round = 0; round < 2; round++) {
    await collectGarbage(deps);
    await advance(DAY_MS);
  }
  for (const { id } of WORKSPACES) expect(await agentUse(deps, id)).toEqual({ versions: 0, bytes: 0 });
  expect(await blobs()).toEqual([]);
  expect((await deps.main.query({ index: 'gsi2', pk: 'GARBAGE' })).items).toEqual([]);
}

type Step =
  | { readonly do: 'publish'; readonly isLarge: boolean }
  | { readonly do: 'upload'; readonly which: number; readonly code: string; readonly hash: string | undefined }
  | { readonly do: 'change'; readonly which: number; readonly isLarge: boolean }
  | { readonly do: 'copy' | 'remove' | 'activate'; readonly which: number };
const stepOn = (which: fc.Arbitrary<number>): fc.Arbitrary<Step> =>
  fc.oneof(
    fc.record({ do: fc.constant('publish' as const), isLarge: fc.boolean() }),
    fc.record({
      do: fc.constant('upload' as const),
      which,
      code: fc.constantFrom('one', 'second', 'the third'),
      hash: fc.constantFrom(undefined, 'a', 'bb'),
    }),
    fc.record({ do: fc.constant('change' as const), which, isLarge: fc.boolean() }),
    fc.record({ do: fc.constantFrom('copy' as const, 'remove' as const, 'activate' as const), which }),
  );
const step = stepOn(fc.nat(8));
/** Always the same version, so that concurrent steps collide. */
const sameStep = stepOn(fc.constant(0));

async function play(deps: KeptDeps, versions: readonly AgentVersion[], todo: Step): Promise<void> {
  if (todo.do === 'publish') return void (await publishProgram(deps, WORKSPACES[0], todo.isLarge ? LARGE : ''));
  const version = versions[todo.which % versions.length];
  if (version === undefined) return;
  if (todo.do === 'upload') await uploadCode(deps, version, todo.code, todo.hash);
  if (todo.do === 'change') {
    const files = version.definition.skill_files;
    await changeDefinition(deps, version, definition(version.name, todo.isLarge ? LARGE : 'short', files));
  }
  if (todo.do === 'remove') await removeVersions(withoutListeners(deps), version, [version]);
  if (todo.do === 'activate') await makeCurrent(withoutListeners(deps), version);
  if (todo.do === 'copy') {
    const current = await new AgentStore(deps, version.workspaceId).find(version.id);
    if (current?.install?.status !== 'building' && current) await copy(deps, current, WORKSPACES[1]);
  }
}

/** Whether a step may fail with this error. */
const isExpected = (error: unknown): boolean => /died|was deleted|already has different code/.test(String(error));

/** Ports of a process that dies at call number `calls`, before or after that call takes effect. */
function mortal(deps: KeptDeps, calls: number, isAfter: boolean): KeptDeps {
  let left = calls;
  const wrap = <Port extends Table | Blobs>(port: Port): Port =>
    new Proxy(port, {
      get(target, name) {
        const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
        if (typeof method !== 'function' || name === 'list' || name === 'query') return method.bind(target);
        return async (...args: unknown[]) => {
          left -= 1;
          if (left < 0 || (left === 0 && !isAfter)) throw new Error('the process died');
          const result = await method.apply(target, args);
          if (left === 0) throw new Error('the process died');
          return result;
        };
      },
    });
  return { ...deps, main: wrap(deps.main), blobs: wrap(deps.blobs) };
}

/** Ports whose calls run in the order chosen by the scheduler. */
function scheduled(deps: KeptDeps, scheduler: fc.Scheduler): KeptDeps {
  const main = new Proxy(deps.main, {
    get(target, name) {
      const method = Reflect.get(target, name);
      return (...args: unknown[]) => scheduler.schedule(Promise.resolve()).then(() => method.apply(target, args));
    },
  });
  return { ...deps, main };
}

describe('counters match the stored data, and no blob is leaked', () => {
  test('after any steps of processes that die at any point', async () => {
    const death = fc.record({ calls: fc.integer({ min: 1, max: 30 }), isAfter: fc.boolean() });
    const steps = fc.array(fc.tuple(step, death), { maxLength: 20 });
    const property = fc.asyncProperty(steps, fc.array(death, { maxLength: 4 }), async (todo, deaths) => {
      const world = setUp();
      const { deps, advance } = world;
      const known = new Map<string, AgentVersion>();
      for (const [one, { calls, isAfter }] of todo) {
        await play(mortal(deps, calls, isAfter), [...known.values()], one).catch((error) => {
          if (!isExpected(error)) throw error;
        });
        for (const version of await listAll(deps)) known.set(version.id, version);
        await expectExact(deps, known);
      }
      for (const version of await listAll(deps)) await removeVersions(withoutListeners(deps), version, [version]);
      await advance(31 * DAY_MS);
      for (const { calls, isAfter } of deaths) {
        await collectGarbage(mortal(deps, calls, isAfter)).catch((error) => {
          if (!isExpected(error)) throw error;
        });
      }
      await expectNothingLeft(world);
    });
    await fc.assert(property, { numRuns: 25 });
  });

  test('after any concurrent steps', async () => {
    const property = fc.asyncProperty(
      fc.array(sameStep, { maxLength: 3 }),
      fc.array(sameStep, { minLength: 2, maxLength: 5 }),
      fc.scheduler(),
      async (steps, atOnce, scheduler) => {
        const before: readonly Step[] = [{ do: 'publish', isLarge: false }, ...steps];
        const world = setUp();
        const { deps } = world;
        const known = new Map<string, AgentVersion>();
        const learn = async () => {
          for (const version of await listAll(deps)) known.set(version.id, version);
        };
        for (const todo of before) {
          await play(deps, [...known.values()], todo).catch((error) => {
            if (!isExpected(error)) throw error;
          });
          await learn();
        }
        const present = [...known.values()];
        const racing = scheduled(deps, scheduler);
        const ended = Promise.allSettled(atOnce.map((todo) => play(racing, present, todo)));
        await scheduler.waitFor(ended);
        for (const result of await ended) {
          if (result.status === 'rejected' && !isExpected(result.reason)) throw result.reason;
        }
        await learn();
        await expectExact(deps, known);
        await expectNothingLeft(world);
      },
    );
    await fc.assert(property, { numRuns: 25 });
  });
});

test('the plan limits versions and bytes, even with concurrent publishes', async () => {
  const { deps } = setUp({ agent_versions: 7, agent_bytes: 10_000 });
  const answers = await Promise.allSettled(Array.from({ length: 20 }, () => publishProgram(deps)));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(7);
  const [version] = await listAll(deps);
  await expect(publishProgram(deps)).rejects.toMatchObject({
    code: 'STORAGE_QUOTA_EXCEEDED',
    message: expect.stringMatching(/7 versions of agents.*allows 7 \(agent_versions\)/),
    extra: { hint: expect.stringContaining('Delete versions') },
  });
  await expect(uploadCode(deps, version!, 'x'.repeat(9_900))).rejects.toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED' });
  await expect(uploadCode(deps, version!, 'x'.repeat(10_001))).rejects.toMatchObject({ code: 'DOCUMENT_TOO_LARGE' });
  const hash = 'h'.repeat(99);
  await expect(uploadCode(deps, version!, 'small', hash)).rejects.toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED' });
});

test('a deleted version counts until it is purged, and a layer until its last version is', async () => {
  const { deps, advance, blobs } = setUp();
  const first = await uploadCode(deps, await publishProgram(deps), 'one', 'a');
  const second = await uploadCode(deps, await publishProgram(deps), 'two!', 'a');
  const { bytes } = await agentUse(deps, 'home');
  expect(await blobs()).toHaveLength(3);
  await removeVersions(withoutListeners(deps), first, [first]);
  await advance(29 * DAY_MS);
  await collectGarbage(deps);
  expect(await agentUse(deps, 'home')).toEqual({ versions: 2, bytes });
  expect(await blobs()).toHaveLength(3);
  await advance(2 * DAY_MS);
  await collectGarbage(deps);
  await advance(1000);
  await collectGarbage(deps);
  expect((await agentUse(deps, 'home')).versions).toBe(1);
  expect(await blobs()).toEqual([second.bundle!.key, second.install!.layer]);
});

test('a copy in another workspace keeps bundle and layer when the source is removed for good', async () => {
  const { deps, advance, blobs } = setUp();
  const source = await uploadCode(deps, await publishProgram(deps), 'one', 'a');
  const copied = await copy(deps, source, WORKSPACES[1]);
  await removeVersions(withoutListeners(deps), source, [source]);
  await advance(31 * DAY_MS);
  await collectGarbage(deps);
  await advance(1000);
  await collectGarbage(deps);
  expect(await blobs()).toEqual([copied.bundle!.key, copied.install!.layer]);
  expect(await agentUse(deps, 'home')).toEqual({ versions: 0, bytes: 0 });
  expect((await agentUse(deps, 'away')).bytes).toBeGreaterThan(100);
});

test('versions older than the counter are counted on first use, and a wrong count is corrected', async () => {
  const { deps, advance } = setUp();
  const use = { pk: 'WS#home#RESOURCES', sk: 'AGENTS' };
  const version = await uploadCode(deps, await publishProgram(deps), 'code', 'a');
  await publishProgram(deps);
  const exact = await agentUse(deps, 'home');
  await removeVersions(withoutListeners(deps), version, [version]);
  await deps.main.delete(use);
  expect(await agentUse(deps, 'home')).toEqual(exact);
  await deps.main.update(use, { add: { bytes: 5000, versions: -1 } });
  await advance(6 * DAY_MS);
  await collectGarbage(deps);
  expect(await agentUse(deps, 'home')).not.toEqual(exact);
  await advance(2 * DAY_MS);
  await collectGarbage(deps);
  expect(await agentUse(deps, 'home')).toEqual(exact);
});
