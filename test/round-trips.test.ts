import { expect, onTestFinished, test } from 'vitest';
import { memoryDeps } from './helpers/memory-deps.ts';
import { countPromptCall } from './helpers/round-trips.ts';
import { startScriptedLlm } from './helpers/scripted-llm/server.ts';

test('a call of a prompt agent needs few operations on tables, most of them before and after the model', async () => {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const { items, stagesBeforeLlm, operations, readUnits, writeUnits } = await countPromptCall(
    memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1` }),
  );
  expect(items, operations.join(', ')).toBeLessThanOrEqual(6);
  expect(stagesBeforeLlm, operations.join(', ')).toBeLessThanOrEqual(4);
  expect(writeUnits).toBeLessThanOrEqual(5);
  expect(readUnits).toBeLessThanOrEqual(2);
});

test.each([0, 1])('scores in production add nothing to a call, with a sample of %s', async (sample) => {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const deps = () => memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const evals = { online: { sample, assert: [{ type: 'contains', value: 'Ada' }] } };
  const plain = await countPromptCall(deps());
  const scored = await countPromptCall(deps(), { evals });
  expect(scored.operations.toSorted()).toEqual(plain.operations.toSorted());
  expect([scored.stagesBeforeLlm, scored.writeUnits]).toEqual([plain.stagesBeforeLlm, plain.writeUnits]);
});

test('a message of a session needs three more: a query, and its turn with the record and its end', async () => {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const deps = memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const { items, stagesBeforeLlm, operations, writeUnits } = await countPromptCall(deps, { inSession: true });
  // The query reads the session, and the turn before.
  expect(items, operations.join(', ')).toBeLessThanOrEqual(10);
  expect(operations.filter((name) => name === 'runs.query')).toHaveLength(1);
  expect(stagesBeforeLlm, operations.join(', ')).toBeLessThanOrEqual(5);
  // Transactions cost twice as much as single writes.
  expect(writeUnits).toBeLessThanOrEqual(13);
});
