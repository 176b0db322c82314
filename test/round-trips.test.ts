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
