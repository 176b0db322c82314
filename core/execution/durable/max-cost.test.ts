import { expect, test } from 'vitest';
import { IMMORTAL } from '#test/helpers/durable-histories.ts';
import { DONE, HOUR_MS, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';

/** Loops that ask a person whether they may cost more. A turn here costs $0.00007. */

const LOOP = { max_cost_usd: 0.0002, on_max_cost: 'ask' };
const spender = (loop: object = {}) =>
  waitingLoop({ loop: { ...LOOP, ...loop } }, [[pay(1)], [pay(2)], [pay(3)], [pay(4)], [pay(5)], [pay(6)], [DONE]]);

test('a run that has nearly spent its limit waits, and goes on when it may cost more', async () => {
  const run = await spender();
  const id = await run.call();
  expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
  expect(run.paid).toEqual(['ann 1', 'ann 2']);
  expect(await run.list()).toMatchObject([
    {
      ...{ id: `${id}.2.0`, kind: 'approve', tool: 'loop.max_cost_usd', arguments: { max_cost_usd: 0.0004 } },
      question: 'The run has cost $0.00014 of the $0.0002 that it may cost. May it cost more?',
    },
  ]);
  expect(await run.decide(`${id}.2.0`, { decision: 'approve' })).toMatchObject({ status: 200 });
  await run.next();
  // At twice the limit it asks again.
  expect(await run.list()).toMatchObject([{ id: `${id}.5.0`, arguments: { max_cost_usd: 0.0008 } }]);
  await run.decide(`${id}.5.0`, { decision: 'approve', for: 'run' });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.paid).toHaveLength(6);
  await run.isOver();
});

test('a person may name another limit, but none below the one that is reached', async () => {
  const run = await spender();
  const id = await run.call();
  const decide = (max_cost_usd: unknown) =>
    run.decide(`${id}.2.0`, { decision: 'approve', arguments: { max_cost_usd } });
  for (const wrong of [0.0002, 'much', null]) {
    expect(await decide(wrong)).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('body.arguments.max_cost_usd') } },
    });
  }
  expect(await decide(1)).toMatchObject({ status: 200 });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.paid).toHaveLength(6);
});

test.each([true, false])(
  'a run that may not cost more has one turn for its result (refused: %s)',
  async (isRefused) => {
    const run = await spender();
    const id = await run.call();
    if (isRefused) await run.decide(`${id}.2.0`, { decision: 'deny' });
    else await run.deps.clock.advance(31 * 24 * HOUR_MS);
    await run.next();
    expect(run.paid).toEqual(['ann 1', 'ann 2']);
    expect(await run.runs.find(id)).toMatchObject({ status: 'failed', errorCode: 'UNPROCESSABLE' });
    await run.isOver();
  },
);

test('a decision is applied once, wherever the process dies', async () => {
  let died = 0;
  for (let lifetime = 1; lifetime < 200; lifetime += 5) {
    const run = await spender();
    const id = await run.call();
    await run.decide(`${id}.2.0`, { decision: 'approve', arguments: { max_cost_usd: 1 } });
    await run.next({ ...IMMORTAL, lifetime });
    if ((await run.runs.find(id))?.status === 'completed') break;
    died += 1;
    await run.deps.clock.advance(HOUR_MS / 60);
    await run.next();
    expect(await run.runs.find(id), `died at ${lifetime}`).toMatchObject({ status: 'completed' });
    await run.isOver();
  }
  expect(died).toBeGreaterThan(5);
});

test('nobody is asked before the last turn', async () => {
  const run = await spender({ max_turns: 3 });
  const id = await run.call();
  expect(await run.runs.find(id)).toMatchObject({ status: 'failed', errorCode: 'UNPROCESSABLE' });
});
