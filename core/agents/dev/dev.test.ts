import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { type AgentVersion, newBundleKey } from '#core/manifest/version.ts';
import { crashing, type Fuse, ProcessDied } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { collectAgentGarbage } from '../garbage.ts';
import { makeCurrent } from '../publish.ts';
import { announceBlob } from '../retention/blobs.ts';
import { attachBundle } from '../retention/builds.ts';
import { agentUse, recountDue } from '../retention/storage-usage.ts';
import { AgentStore, ANYONE, findAnyVersion } from '../store.ts';
import { publishDev } from './publish.ts';

const DAY_MS = 24 * 3600 * 1000;
const WORKSPACE: Workspace = { id: 'home', slug: 'home', name: 'Home', type: 'team', createdAt: '' };
const ANN = { workspace: WORKSPACE, userId: 'ann' };
const LARGE = 'x'.repeat(120_000);

const definition = (name: string, more: object = {}): AgentDefinition =>
  ({ name, is_public: true, prompt: '', execution_engine: 'direct_llm', ...more }) as unknown as AgentDefinition;
const PROGRAM = { execution_engine: 'code_runtime' };

function setUp() {
  const base = memoryDeps();
  // Nothing sleeps: the clock only advances between steps.
  const clock = Object.assign(Object.create(base.clock) as typeof base.clock, {
    now: () => base.clock.now(),
    sleep: async () => {},
  });
  const deps = { ...base, clock };
  const blobs = () => Array.fromAsync(base.blobs.list(''));
  return { deps, blobs, advance: (ms: number) => base.clock.advance(ms), store: new AgentStore(deps, 'home') };
}

/** Publishes a program as clients do: first the manifest, then the code. */
async function publishProgram(deps: MemoryDeps, code: string, prompt = ''): Promise<AgentVersion> {
  const build = await publishDev(deps, ANN, definition('tool', { ...PROGRAM, prompt }));
  const sha256 = createHash('sha256').update(code).digest('hex');
  const key = newBundleKey(sha256, deps.ids.uuid());
  await announceBlob(deps, key);
  await deps.blobs.put(key, Buffer.from(code));
  const bundle = { sha256, key, sizeBytes: code.length, entrypoint: null, uploadedAt: '' };
  const stored = await attachBundle(deps, build, { bundle });
  await makeCurrent({ ...deps, listeners: { currentVersionChanged: async () => ({ servicesUpdated: 0 }) } }, stored);
  return stored;
}

async function collect({ deps, advance }: Pick<ReturnType<typeof setUp>, 'deps' | 'advance'>): Promise<void> {
  await collectAgentGarbage(deps);
  await advance(1000);
  await collectAgentGarbage(deps);
}

test.each([
  ['before', false],
  ['after', true],
])('a process that dies %s any write leaves the old build or the new one, and nothing for ever', async (_, isAfter) => {
  for (let calls = 1, died = true; died; calls++) {
    const { deps, blobs, advance, store } = setUp();
    await publishProgram(deps, 'one', LARGE);
    const fuse: Fuse = { callsLeft: calls, isAfter };
    const mortal = { ...deps, main: crashing(deps.main, fuse), blobs: crashing(deps.blobs, fuse) };
    died = await publishProgram(mortal, 'two', `${LARGE}2`).then(
      () => false,
      (error) => {
        if (!(error instanceof ProcessDied)) throw error;
        return true;
      },
    );

    const found = (await store.findDev('tool', 'ann'))!;
    const isNew = found.definition.prompt?.endsWith('2') ?? false;
    expect(found).toMatchObject({ runnable: true, version: 0, devOf: 'ann' });
    expect(Buffer.from((await deps.blobs.get(found.bundle!.key!))!).toString()).toBe(isNew ? 'two' : 'one');
    if (!died) expect(isNew).toBe(true);

    const third = await publishProgram(deps, 'three');
    expect((await store.findDev('tool', 'ann'))!.id).toBe(third.id);
    await advance(2 * DAY_MS);
    await collect({ deps, advance });
    expect(await blobs()).toEqual([third.bundle!.key]);
    const use = await agentUse(deps, 'home');
    expect(use.versions).toBe(0);
    await advance(8 * DAY_MS);
    await recountDue(deps);
    expect(deps.lines.filter(({ message }) => message.includes('corrected'))).toEqual([]);
    expect(await agentUse(deps, 'home')).toEqual(use);

    await advance(15 * DAY_MS);
    expect(await store.findDev('tool', 'ann')).toBeUndefined();
    await collect({ deps, advance });
    await advance(2 * DAY_MS);
    await collect({ deps, advance });
    expect(await blobs()).toEqual([]);
    expect(await agentUse(deps, 'home')).toEqual({ versions: 0, bytes: 0 });
  }
});

test('blobs of a replaced build stay for runs in flight', async () => {
  const { deps, blobs, advance } = setUp();
  const first = await publishProgram(deps, 'one');
  const second = await publishProgram(deps, 'two');
  await advance(50 * 60_000);
  await collectAgentGarbage(deps);
  expect((await blobs()).sort()).toEqual([first.bundle!.key, second.bundle!.key].sort());
  await advance(11 * 60_000);
  await collect({ deps, advance });
  expect(await blobs()).toEqual([second.bundle!.key]);
});

test('an upload for a replaced build is rejected', async () => {
  const { deps, store } = setUp();
  const [slow, fast] = await Promise.all([
    publishDev(deps, ANN, definition('tool', PROGRAM)),
    publishDev(deps, ANN, definition('tool', PROGRAM)),
  ]);
  const alive = (await Promise.all([slow, fast].map(({ id }) => store.find(id, 'ann')))).filter(Boolean);
  expect(alive).toHaveLength(1);
  const gone = alive[0]!.id === slow.id ? fast : slow;
  const bundle = { sha256: 'ab', key: 'bundles/x/ab.zip', sizeBytes: 1, entrypoint: null, uploadedAt: '' };
  await expect(attachBundle(deps, gone, { bundle })).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('a user has at most 20 slots, even with concurrent publishes; other users have their own', async () => {
  const { deps, store } = setUp();
  const names = Array.from({ length: 25 }, (_, index) => `agent-${index}`);
  const answers = await Promise.allSettled(names.map((name) => publishDev(deps, ANN, definition(name))));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
  const refused = answers.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
  expect(refused.reason).toMatchObject({ code: 'FORBIDDEN', message: expect.stringContaining('20 agents') });
  const bob = await publishDev(deps, { ...ANN, userId: 'bob' }, definition('agent-0'));
  expect((await store.findDev('agent-0', 'bob'))!.id).toBe(bob.id);
  expect(await store.find(bob.id)).toBeUndefined();
  expect(await store.find(bob.id, 'ann')).toBeUndefined();
  expect(await store.find(bob.id, 'bob')).toMatchObject({ id: bob.id });
  expect(await findAnyVersion(deps, bob.id)).toBeUndefined();
  expect(await findAnyVersion(deps, bob.id, ANYONE)).toMatchObject({ id: bob.id });
  expect(await store.listAll()).toEqual([]);
  expect(await store.listVersions('agent-0')).toEqual([]);
});
