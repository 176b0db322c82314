import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { turnKey } from '#core/runs/sessions/items.ts';
import { copyState, eraseState, stateKey, statePartition } from '#core/runs/sessions/state.ts';
import { RunStore } from '#core/runs/store.ts';
import { crashing } from '#test/helpers/crashing.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { Said } from '../engines/loop/said.ts';
import { SessionState } from './state.ts';

const SESSION = 'ses_00000000000000000000000000000001';
const FORK = 'ses_00000000000000000000000000000002';
const said = (text: string): Said => ({ frame: 'f', model: 'm', messages: [{ role: 'user', text }] });
const LONG = Array.from({ length: 3000 }, () => randomUUID()).join();

function world() {
  const deps = memoryDeps();
  const workspaceId = randomUUID();
  const place = { workspaceId, sessionId: SESSION };
  const runs = new RunStore(deps, workspaceId);
  const begin = async (number: number): Promise<NewRun> => {
    const run: NewRun = {
      id: randomUUID(),
      agentId: randomUUID(),
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'helper',
      agentVersion: 'v1',
      engine: 'managed_loop',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: deps.clock.now(),
      deadline: deps.clock.now() + 60_000,
      input: { message: 'x' },
      session: { sessionId: SESSION, number },
    };
    expect(await runs.start(run)).toBe(true);
    return run;
  };
  /** Ends a message that leaves these to the next one. */
  const message = async (number: number, given: { conversation?: Said; files?: Uint8Array }, bundle?: string) => {
    const run = await begin(number);
    const state = await (await SessionState.read(deps, place)).keep(given, { number, bundle });
    const end = emptyResult(endedWith(undefined), run.input);
    expect(await runs.finish(run, { ...end, ...(state && { state }) })).toBe(true);
    return state;
  };
  const blobs = () => Array.fromAsync(deps.blobs.list(`sessions/${workspaceId}/`));
  const read = (sessionId = SESSION) => SessionState.read(deps, { workspaceId, sessionId });
  return { deps, workspaceId, place, runs, begin, message, blobs, read };
}

test('a message finds what the one before left, and nothing else is stored of those', async () => {
  const { message, read, blobs } = world();
  expect(await (await read()).conversation()).toBeUndefined();
  expect(await (await read()).files('b1')).toBeUndefined();
  await message(1, { conversation: said(LONG), files: Buffer.from('files 1') }, 'b1');
  expect(await (await read()).conversation()).toEqual({ ...said(LONG), after: 1 });
  await message(2, { conversation: said('short') }, 'b1');
  const state = await read();
  expect(await state.conversation()).toEqual({ ...said('short'), after: 2 });
  expect(await state.files('b1')).toEqual({ content: Buffer.from('files 1'), isOtherBundle: false });
  expect(await state.files('b2')).toMatchObject({ isOtherBundle: true });
  await message(3, {}, 'b1');
  expect(await (await read()).conversation()).toMatchObject({ after: 2 });
  await message(4, { files: Buffer.from('files 4') }, 'b2');
  expect(await (await read()).files('b2')).toMatchObject({ content: Buffer.from('files 4') });
  expect(await blobs()).toEqual([expect.stringContaining(`/${SESSION}/files-4-`)]);
});

test('bytes of the session count what is kept, once', async () => {
  const { deps, workspaceId, message } = world();
  const first = await message(1, { files: Buffer.alloc(1000) });
  const second = await message(2, { files: Buffer.alloc(400) });
  expect([first?.growth, second?.growth]).toEqual([1000, -600]);
  expect((await deps.runs.get(turnKey(workspaceId, SESSION, 1)))?.bytes).toBeGreaterThan(1000);
});

test('nothing of it can be read in the tables and blobs', async () => {
  const { deps, workspaceId, message, blobs } = world();
  await message(1, { conversation: said(`the marker ${LONG}`), files: Buffer.from('the marker') });
  await message(2, { conversation: said('the marker') });
  const item = await deps.runs.get(stateKey(workspaceId, SESSION));
  const stored = await Promise.all((await blobs()).map((key) => deps.blobs.get(key)));
  const text = JSON.stringify(item) + stored.map((content) => Buffer.from(content!).toString('latin1')).join();
  expect(text).not.toContain('the marker');
});

test('a damaged conversation is as none, damaged files are an error, and both leave the other', async () => {
  const { deps, workspaceId, message, read, blobs } = world();
  await message(1, { conversation: said(LONG), files: Buffer.from('files') });
  const [ofConversation, ofFiles] = await blobs();
  const content = Buffer.from((await deps.blobs.get(ofFiles!))!);
  content[20]! ^= 1;
  await deps.blobs.put(ofFiles!, content);
  await deps.blobs.put(ofConversation!, Buffer.from('no'));
  expect(await (await read()).conversation()).toBeUndefined();
  await expect((await read()).files(undefined)).rejects.toMatchObject({
    code: 'INTERNAL_ERROR',
    message: 'The files of this session cannot be restored. Their snapshot is damaged.',
    extra: { hint: expect.stringContaining('Fork the session'), is_retryable: false },
  });
  await deps.blobs.delete(ofFiles!);
  await expect((await read()).files(undefined)).rejects.toThrow('Their snapshot is missing.');
  const item = (await deps.runs.get(stateKey(workspaceId, SESSION)))!;
  // One session's state in the place of another one's.
  await deps.runs.put({ ...item, ...stateKey(workspaceId, FORK), sealed_for: FORK, conversation: item.files });
  expect(await (await read(FORK)).conversation()).toBeUndefined();
});

test('a fork has a copy of its own, unless a later message has changed it', async () => {
  const { deps, workspaceId, message, read } = world();
  await message(1, { conversation: said(LONG), files: Buffer.from('files 1') });
  await message(2, { conversation: said('second') });
  await copyState(deps, workspaceId, { from: SESSION, to: FORK, after: 1 });
  expect(await (await read(FORK)).conversation()).toBeUndefined();
  await copyState(deps, workspaceId, { from: SESSION, to: FORK, after: 2 });
  await message(3, { conversation: said('third'), files: Buffer.from('files 3') });
  const fork = await read(FORK);
  expect(await fork.conversation()).toEqual({ ...said('second'), after: 2 });
  expect(await fork.files(undefined)).toMatchObject({ content: Buffer.from('files 1') });
  const kept = await fork.keep({ conversation: said('of the fork') }, { number: 3, bundle: undefined });
  await deps.runs.put({ ...kept!.item, ...stateKey(workspaceId, FORK) });
  expect(await (await read(FORK)).conversation()).toEqual({ ...said('of the fork'), after: 3 });
  expect(await (await read(FORK)).files(undefined)).toMatchObject({ content: Buffer.from('files 1') });
  expect(await (await read()).conversation()).toEqual({ ...said('third'), after: 3 });
});

test('erasure leaves no item', async () => {
  const { deps, place, message } = world();
  await message(1, { conversation: said('x') });
  await eraseState(deps, place);
  const { items } = await deps.runs.query({ pk: statePartition(place.workspaceId, place.sessionId) });
  expect(items).toEqual([]);
});

test('a process that dies at any write leaves both the turn and its state as they were, or neither', async () => {
  let hasEnded = false;
  for (let step = 1; !hasEnded; step++) {
    expect(step).toBeLessThan(60);
    const fuse = { callsLeft: Math.ceil(step / 2), isAfter: step % 2 === 0 };
    const { deps, workspaceId, place, message, begin, read } = world();
    await message(1, { conversation: said('first'), files: Buffer.from('files 1') });
    const run = await begin(2);
    const dying = { ...deps, runs: crashing(deps.runs, fuse), blobs: crashing(deps.blobs, fuse) };
    try {
      const given = { conversation: said(LONG), files: Buffer.from('files 2') };
      const state = await (await SessionState.read(dying, place)).keep(given, { number: 2, bundle: undefined });
      await new RunStore(dying, workspaceId).finish(run, {
        ...emptyResult(endedWith(undefined), run.input),
        state: state!,
      });
      hasEnded = true;
    } catch {
      // It died.
    }
    const turn = await deps.runs.get(turnKey(workspaceId, SESSION, 2));
    const number = turn?.status === undefined ? 1 : 2;
    const now = await read();
    expect((await now.conversation())?.after, `died at ${step}`).toBe(number);
    expect(await now.files(undefined)).toMatchObject({ content: Buffer.from(`files ${number}`) });
  }
});
