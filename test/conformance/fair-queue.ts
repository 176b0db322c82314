import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import type { ManualClock } from '#test/helpers/manual-clock.ts';
import { specOf } from './sandbox.ts';

/** A host with `max` free slots. */
export interface TurnsHarness {
  readonly sandbox: Sandbox;
  readonly clock: ManualClock;
}

interface Asked {
  readonly name: string;
  session?: SandboxSession | undefined;
  error?: unknown;
  readonly cancel: AbortController;
}

/** A host may poll for a free slot only once a second. */
const LOOK_MS = 1000;
/** Turns of the event loop after which every request to a test's table or function is answered. */
const LOOP_TURNS = 30;

/** Order in which calls get sandboxes, for every host (`core/execution/fair-queue.ts`). */
export function turnsConformance(setUp: (max: number) => Promise<TurnsHarness>): void {
  const start = async (max: number) => {
    const { sandbox, clock } = await setUp(max);
    const all: Asked[] = [];
    const settle = async () => {
      for (let i = 0; i < LOOP_TURNS; i++) await setImmediate();
    };
    const pass = async (ms: number) => {
      await settle();
      for (let left = ms; left > 0; left -= LOOK_MS) {
        await clock.advance(Math.min(left, LOOK_MS));
        await settle();
      }
    };
    /**
     * Requests a sandbox, for an installation if the name ends with a plus. The first letter of the name is the owner;
     * work without a name skips the queue.
     */
    const ask = async (name?: string, seconds = 600): Promise<Asked> => {
      const deadline = clock.now() + seconds * 1000;
      const asked: Asked = { name: name ?? 'no turn', cancel: new AbortController() };
      const turn = name === undefined ? undefined : { owner: name.slice(0, 1), deadline };
      const purpose = name?.endsWith('+') ? 'install' : 'run';
      sandbox.open(specOf({ deadline, turn, purpose, signal: asked.cancel.signal })).then(
        (session) => {
          asked.session = session;
        },
        (error: unknown) => {
          asked.error = error;
        },
      );
      all.push(asked);
      await settle();
      return asked;
    };
    const askAll = async (...names: (string | undefined)[]) => {
      const asked: Asked[] = [];
      for (const name of names) {
        asked.push(await ask(name));
        // Requests within the same millisecond have no order.
        await pass(1);
      }
      return asked;
    };
    const close = async (asked: Asked) => {
      await asked.session!.close();
      asked.session = undefined;
      await pass(LOOK_MS);
    };
    /** Names of the callers that hold a slot, in the order of their requests. */
    const open = () => all.filter(({ session }) => session !== undefined).map(({ name }) => name);
    return { clock, ask, askAll, close, open, pass };
  };

  describe('runs', () => {
    test('of one workspace alone use three quarters of the places', async () => {
      const { askAll, open } = await start(8);
      await askAll(...Array(10).fill('a'));
      expect(open()).toEqual(Array(6).fill('a'));
    });

    test('of all workspaces together use no more than that', async () => {
      const { askAll, open, pass } = await start(4);
      await askAll('a', 'b', 'c', 'd', 'e');
      await pass(10_000);
      expect(open()).toEqual(['a', 'b', 'c']);
    });

    test.each([
      [1, 1],
      [2, 1],
      [3, 2],
    ])('have room where there are few places, and leave one free where there are more: %i, %i', async (max, runs) => {
      const { askAll, open } = await start(max);
      await askAll('a', 'b', 'c', 'd');
      expect(open()).toHaveLength(runs);
    });

    test('are next when their workspace has the fewest, else in order of arrival', async () => {
      const { askAll, close, open } = await start(4);
      const [a1, a2, b1] = await askAll('a1', 'a2', 'b1', 'a3', 'b2', 'c1', 'd1');
      expect(open()).toEqual(['a1', 'a2', 'b1']);
      await close(a1!);
      expect(open()).toEqual(['a2', 'b1', 'c1']);
      await close(b1!);
      expect(open()).toEqual(['a2', 'b2', 'c1']);
      await close(a2!);
      expect(open()).toEqual(['a3', 'b2', 'c1']);
    });

    test('of a busy workspace do not delay those of others', async () => {
      const { askAll, close, open } = await start(4);
      const burst = await askAll(...Array(20).fill('a'));
      const [quiet] = await askAll('b');
      await close(burst[0]!);
      expect(open()).toEqual(['a', 'a', 'b']);
      await close(quiet!);
      expect(open()).toEqual(['a', 'a', 'a']);
      for (const asked of burst.slice(1)) await close(asked);
      expect(open()).toEqual([]);
    });
  });

  describe('installations', () => {
    test('hold at most half of the places that runs leave, and at least one', async () => {
      for (const [max, installations] of [
        [16, 2],
        [8, 1],
        [4, 1],
      ] as const) {
        const { askAll, open } = await start(max);
        await askAll('a1+', 'b1+', 'c1+', 'd1+');
        expect(open()).toHaveLength(installations);
      }
    });

    test('of a busy workspace leave all others their turns: installations, runs and sub-calls', async () => {
      const { ask, askAll, close, open } = await start(16);
      const burst = await askAll(...Array.from({ length: 40 }, (_, n) => `a${n}+`));
      expect(open()).toEqual(['a0+', 'a1+']);
      await askAll('b+', ...Array(13).fill('c'));
      expect(open()).toEqual(['a0+', 'a1+', ...Array(12).fill('c')]);
      await ask();
      await ask();
      expect(open().slice(-2)).toEqual(['no turn', 'no turn']);
      await close(burst[0]!);
      expect(open()).toContain('b+');
      expect(open()).not.toContain('a2+');
    });

    test('find a place however many runs wait', async () => {
      const { askAll, open } = await start(4);
      await askAll('a', 'a', 'b', 'c', 'd', 'e+');
      expect(open()).toEqual(['a', 'a', 'b', 'e+']);
    });
  });

  describe('sub-calls', () => {
    test('find the last quarter free, however many runs wait', async () => {
      const { ask, askAll, open } = await start(4);
      await askAll('a', 'b', 'c', 'd');
      await ask();
      expect(open()).toEqual(['a', 'b', 'c', 'no turn']);
    });

    test('use all places when they are free, and go before runs', async () => {
      const { ask, askAll, close, open } = await start(4);
      const [first, second] = await askAll(undefined, undefined, undefined, undefined);
      await askAll('a');
      await ask();
      expect(open()).not.toContain('a');
      await close(first!);
      expect(open()).toEqual(Array(4).fill('no turn'));
      await close(second!);
      expect(open()).toEqual(['no turn', 'no turn', 'a', 'no turn']);
    });
  });

  test('a run waits for half of its time, then it is told when to come again', async () => {
    const { ask, askAll, close, open, pass } = await start(2);
    const [held] = await askAll('a');
    const waiting = await ask('b', 60);
    await pass(29_999);
    expect(waiting).not.toHaveProperty('error');
    await pass(1);
    expect(waiting.error).toMatchObject({
      code: 'RATE_LIMITED',
      message: expect.stringMatching(/^No sandbox became available in time: call again in about 30 s/),
      extra: { suggested_wait_time: 30 },
    });
    await close(held!);
    await askAll('c');
    expect(open()).toEqual(['c']);
  });

  test('a run that is cancelled waits no longer, and takes no place', async () => {
    const { ask, askAll, close, open, clock, pass } = await start(2);
    const [held] = await askAll('a');
    const sleepers = clock.sleepers;
    const waiting = await ask('b');
    waiting.cancel.abort(new Error('cancelled'));
    await pass(10_000);
    expect(waiting.error).toMatchObject({ message: 'cancelled' });
    expect(clock.sleepers).toBe(sleepers);
    await close(held!);
    await askAll('c');
    expect(open()).toEqual(['c']);
  });
}
