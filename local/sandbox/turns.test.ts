import { expect, test } from 'vitest';
import type { Sandbox, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { SandboxTurns } from './turns.ts';

/** A sandbox that only counts: what is tested here is who may open one when. */
function counted(most: number) {
  const clock = new ManualClock();
  const sessions = new Set<object>();
  const sandbox: Sandbox = {
    async open(spec) {
      if (spec.bundle === 'broken') throw new Error('broken');
      const session = { close: async () => void sessions.delete(session) } as SandboxSession;
      sessions.add(session);
      return session;
    },
    status: async () => ({ kind: 'unshare', interpreters: {} }),
    close: async () => {},
  };
  const turns = new SandboxTurns(sandbox, { most, clock });
  const open = (owner: string | undefined, more: { bundle?: string; signal?: AbortSignal } = {}) =>
    turns.open({
      ...more,
      turn: owner && { owner, deadline: clock.now() + 60_000 },
    } as SandboxSpec);
  return { clock, sessions, open };
}

const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));

test('who sends a hundred calls waits for his own', async () => {
  const { open, sessions } = counted(8);
  const done: string[] = [];
  const run = async (owner: string) => {
    const session = await open(owner);
    await turnOfLoop();
    await session.close();
    done.push(owner);
  };
  const burst = Array.from({ length: 100 }, () => run('a'));
  await turnOfLoop();
  expect(sessions.size).toBeLessThanOrEqual(6);
  await Promise.all([run('b'), run('b'), run('c')]);
  expect(done.length).toBeLessThan(30);
  await Promise.all(burst);
  expect(done).toHaveLength(103);
  expect(sessions.size).toBe(0);
});

test('never more than there may be, and all of them where several want them', async () => {
  const { open, sessions } = counted(4);
  const first = await Promise.all(['a', 'a', 'a', 'b'].map((owner) => open(owner)));
  const [fromA, fromB] = [open('a'), open('b')];
  await turnOfLoop();
  expect(sessions.size).toBe(4);
  await first[0]!.close();
  await first[0]!.close();
  // `b` has fewer open than `a`, which came before it.
  await fromB;
  expect(sessions.size).toBe(4);
  await first[1]!.close();
  await fromA;
  expect(sessions.size).toBe(4);
});

test('half of the time left is waited for a turn', async () => {
  const { open, clock } = counted(2);
  const held = await Promise.all([open('a'), open('b')]);
  const waiting = open('c').catch((error) => error);
  await turnOfLoop();
  await clock.advance(29_999);
  expect(clock.sleepers).toBe(1);
  await clock.advance(1);
  expect(await waiting).toMatchObject({ code: 'RATE_LIMITED', extra: { suggested_wait_time: 30 } });
  await held[0]!.close();
  await (await open('c')).close();
});

test('who is cancelled waits no longer, and takes no room', async () => {
  const { open, clock } = counted(2);
  const held = await Promise.all([open('a'), open('b')]);
  const cancelling = new AbortController();
  const waiting = open('c', { signal: cancelling.signal });
  cancelling.abort(new Error('cancelled'));
  await expect(waiting).rejects.toThrow('cancelled');
  await expect(open('c', { signal: cancelling.signal })).rejects.toThrow('cancelled');
  expect(clock.sleepers).toBe(0);
  await held[0]!.close();
  await open('d');
});

test('a sub-call does not wait for the run that waits for it', async () => {
  const { open, sessions } = counted(2);
  await Promise.all([open('a'), open('b')]);
  await open(undefined);
  expect(sessions.size).toBe(3);
});

test('a sandbox that could not be opened leaves its room', async () => {
  const { open } = counted(2);
  for (let i = 0; i < 5; i++) await expect(open('a', { bundle: 'broken' })).rejects.toThrow('broken');
  await Promise.all([open('a'), open('b')]);
});
