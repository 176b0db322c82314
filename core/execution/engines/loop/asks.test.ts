import { expect, test } from 'vitest';
import { unchecked } from '#core/manifest/field-error.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { EngineRun } from '../engine.ts';
import { LoopAsks } from './asks.ts';
import type { LoopTools } from './tools.ts';

test.each([
  ['waits if its check did not end in time', unchecked(': it took too long'), [0]],
  ['does not wait if it does not match', { field: 'amount', message: 'must be more than 100' }, []],
])('a call with a condition %s', async (_, problem, waiting) => {
  const run = { durable: {}, validate: async () => [problem] } as unknown as EngineRun;
  const tool = { name: 'pay', description: 'Pays', inputSchema: { type: 'object' } };
  const tools = { definitionOf: () => tool, approvalOf: () => ({ when: { type: 'object' } }) } as unknown as LoopTools;
  const asks = new LoopAsks(new SystemClock(), run, tools);
  expect(await asks.among([{ id: 'a', name: 'pay', input: { amount: 500 } }])).toEqual(waiting);
});
