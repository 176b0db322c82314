import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { type Clock, SystemClock } from '#core/ports/clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { turnKey } from './items.ts';
import { SteeringStore } from './steering.ts';

const SESSION = 'ses_00000000000000000000000000000001';

async function world(turn = 3) {
  const memory = memoryDeps();
  const system = new SystemClock();
  // Tables expire by this clock, and pauses pass.
  const clock: Clock = {
    now: () => memory.clock.now(),
    sleep: (ms, signal) => system.sleep(ms, signal),
    after: (ms, work) => system.after(ms, work),
  };
  const deps = { ...memory, clock };
  const workspaceId = randomUUID();
  const key = turnKey(workspaceId, SESSION, turn);
  await deps.runs.put({ ...key, run_id: 'r' });
  const messages = new SteeringStore(deps, { workspaceId, sessionId: SESSION, number: turn });
  const end = () => deps.runs.update(key, { set: { status: 'completed' } });
  return { deps, workspaceId, messages, end };
}

test('messages are taken in their order, and once', async () => {
  const { messages } = await world();
  expect(await messages.waiting()).toBeUndefined();
  const numbers = [await messages.add('one'), await messages.add('two')];
  expect(numbers).toEqual([1, 2]);
  expect(await messages.waiting()).toEqual({ texts: ['one', 'two'], upTo: 2 });
  await messages.take(2);
  await messages.take(2);
  expect(await messages.waiting()).toBeUndefined();
  expect(await messages.add('three')).toBe(3);
  expect(await messages.waiting()).toEqual({ texts: ['three'], upTo: 3 });
  expect([await messages.isTaken(1), await messages.isTaken(3)]).toEqual([true, false]);
});

test('messages that come at the same time all wait', async () => {
  const { messages } = await world();
  const numbers = await Promise.all(Array.from({ length: 6 }, (_, index) => messages.add(`${index}`)));
  expect(numbers.sort()).toEqual([1, 2, 3, 4, 5, 6]);
  expect((await messages.waiting())?.texts.sort()).toEqual(['0', '1', '2', '3', '4', '5']);
});

test('a message is either taken or withdrawn', async () => {
  for (let time = 0; time < 20; time++) {
    const { messages } = await world();
    const number = (await messages.add('text'))!;
    const [, fate] = await Promise.all([messages.take(number), messages.withdraw(number)]);
    expect(fate).toBe((await messages.isTaken(number)) ? 'taken' : 'withdrawn');
    expect(await messages.withdraw(number)).toBe(fate);
  }
});

test('a turn that has ended takes none, nor one of another session', async () => {
  const { messages, end, deps, workspaceId } = await world();
  const other = new SteeringStore(deps, { workspaceId, sessionId: SESSION, number: 4 });
  expect(await other.add('text')).toBeUndefined();
  await end();
  expect(await messages.add('text')).toBeUndefined();
  expect(await messages.waiting()).toBeUndefined();
});

test('only twenty wait at a time', async () => {
  const { messages } = await world();
  for (let count = 0; count < 20; count++) await messages.add('text');
  await expect(messages.add('one more')).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('20 messages that its run has not taken yet'),
  });
  await messages.take(5);
  expect(await messages.add('one more')).toBe(21);
});
