import { expect, onTestFinished, test } from 'vitest';
import { leasesOf } from '#core/accounts/limits/admission.ts';
import type { Table } from '#core/ports/table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { newPromptCaller } from '#test/helpers/round-trips.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';

const HOUR = 3_600_000;

/** A table with other methods in place of some of its own. */
const changed = (table: Table, methods: Partial<Table>): Table =>
  new Proxy(table, {
    get(_, name: keyof Table) {
      const own = table[name];
      return methods[name] ?? (typeof own === 'function' ? own.bind(table) : own);
    },
  });

test('a process that was suspended past the time limit begins nothing, which no sweep would find', async () => {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const deps = memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const recorded: string[] = [];
  const counters = changed(deps.counters, {
    async update(...given) {
      const result = await deps.counters.update(...given);
      if (given[0].pk.startsWith('CALLS#')) await deps.clock.advance(HOUR);
      return result;
    },
  });
  const runs = changed(deps.runs, {
    async transact(...given) {
      recorded.push(JSON.stringify(given));
      return deps.runs.transact(...given);
    },
  });
  const call = await newPromptCaller(deps, { ...deps, counters, runs });
  await expect(call()).rejects.toThrow(/TIMEOUT.*before the run began/);
  expect(recorded).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
});
