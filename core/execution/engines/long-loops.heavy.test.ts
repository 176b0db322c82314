import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { runLoop } from './managed-loop.ts';

const TURNS = 50;
const CALLS = 4;
const RESULT_BYTES = 30 * 1024;
const MEGABYTE = 1024 * 1024;

const folder = mkdtempSync(join(tmpdir(), 'long-loops-'));
const blobs = new FolderBlobs(join(folder, 'blobs'));
const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 1 });
const { problem } = await sandbox.status();

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterAll(async () => {
  await Promise.all([server.close(), sandbox.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** Every result is different. */
const work = (turn: number): ScriptedTurn => ({
  thinking: `Turn ${turn}.`,
  toolCalls: Array.from({ length: CALLS }, (_, call) => ({
    name: 'bash',
    input: { command: `seq ${10_000 + turn * CALLS + call} 99999 | head -c ${RESULT_BYTES}` },
  })),
});

test.skipIf(problem !== undefined)(
  `${TURNS * CALLS} results of 30 KB in ${TURNS} turns: at most 15 MB are sent, and all of them are kept`,
  async () => {
    server.script({
      rules: [{ marker: 'It is replaced by your notes', turns: [{ text: 'I counted. '.repeat(200) }] }],
    });
    server.queue(...Array.from({ length: TURNS }, (_, turn) => work(turn)), {
      toolCalls: [{ name: 'bash', input: { command: 'cat /tmp/tool_output/*.txt | wc -c' } }],
    });
    const clock = new SystemClock();
    const deps = {
      ...memoryDeps({ anthropicUrl: `${server.url}/anthropic/v1`, sandboxEgress: 'none' }),
      sandbox,
      clock,
    };
    const { run, events } = loopRun({
      clock,
      // The last turn is only for the result.
      maxTurns: TURNS + 2,
      change: {
        models: [{ provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: 'key' }],
        deadline: clock.now() + 600_000,
      },
    });
    server.script({ default: { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] } });
    const result = await runLoop(deps, run);
    expect(result.error).toBeUndefined();

    const sent = server.requests.reduce((sum, { bytes }) => sum + bytes, 0);
    const longest = Math.max(...server.requests.map(({ bytes }) => bytes));
    const compactions = events.filter(({ type }) => type === 'context_compacted');
    console.log(
      `${(sent / MEGABYTE).toFixed(1)} MB in ${server.requests.length} requests, the longest ${(longest / MEGABYTE).toFixed(2)} MB, ${compactions.length} compactions, $${result.costUsd?.toFixed(2)}`,
    );
    expect(sent).toBeLessThanOrEqual(15 * MEGABYTE);
    expect(compactions).toHaveLength(3);
    // The last tool counted the lines in the files: truncation may have removed the final line end of each.
    const kept = Number(/^\d{7}$/m.exec(server.requests.at(-1)!.text)?.[0]);
    const all = TURNS * CALLS * RESULT_BYTES;
    expect(kept).toBeGreaterThan(all - TURNS * CALLS - 1);
    expect(kept).toBeLessThanOrEqual(all);
  },
  600_000,
);
