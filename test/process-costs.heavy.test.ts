import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dataFolder, startWithGreeter } from './helpers/platform-process.ts';
import { type ScriptedLlm, startScriptedLlm } from './helpers/scripted-llm/server.ts';

/*
 * What a request costs the process of a platform, by counts: memory that it takes, which the collector must free again,
 * and system calls that read or write. Bounds are a tenth above what was counted. They move with Node; raise one for
 * something else only for what users get for it, and say here what.
 */
const BOUNDS = {
  // The request, the model's answer; the request to the model, the answer, and four groups of the journal.
  prompt: { allocatedBytes: 278_000, reads: 2, writes: 6 },
  // The number of reads and writes depends on how the chunks arrive.
  stream: { allocatedBytes: 285_000 },
  getAgent: { allocatedBytes: 37_000, reads: 1, writes: 1 },
};

type Counts = (typeof BOUNDS)['prompt'];

const WARM_UP = 300;
const REQUESTS = 200;
/** On a busy machine, messages arrive in more parts, each with objects of its own. The smallest count is that of the code. */
const ROUNDS = 3;
/** The heap fits all new objects of the counted requests, so none is collected meanwhile. */
const FLAGS = [
  '--expose-gc',
  '--min-semi-space-size=128',
  '--max-semi-space-size=128',
  `--import=${join(import.meta.dirname, 'helpers/tells-heap.mjs')}`,
];

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
afterAll(() => llm.close());

describe.skipIf(process.platform !== 'linux')('a request takes of its process', () => {
  test('no more than is said here', { timeout: 180_000 }, async () => {
    const { platform, key, agentId } = await startWithGreeter(dataFolder(), llm.settings, FLAGS);
    const { child, url } = platform;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const send = async (path: string, init: RequestInit = {}): Promise<void> => {
      const response = await fetch(url + path, { ...init, headers: { ...headers, ...init.headers } });
      expect(response.status, await response.text()).toBe(200);
    };
    const call = (more: Record<string, string>) => () =>
      send('/main/greet/latest/run', { method: 'POST', body: '{}', headers: more });
    const requests = {
      prompt: call({}),
      stream: call({ accept: 'text/event-stream' }),
      getAgent: () => send(`/agents/${agentId}`),
    };

    for (const [path, request] of Object.entries(requests)) {
      for (let done = 0; done < WARM_UP; done++) await request();
      const rounds: Counts[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const before = await countsOf(child, 'empty');
        for (let done = 0; done < REQUESTS; done++) await request();
        const after = await countsOf(child);
        expect(after.collections, 'collections of garbage meanwhile').toBe(before.collections);
        // A message may arrive in two parts now and then.
        const each = (name: keyof typeof after) => Math.floor((after[name] - before[name]) / REQUESTS);
        rounds.push({ allocatedBytes: each('allocatedBytes'), reads: each('reads'), writes: each('writes') });
      }
      const bounds: Partial<Counts> = BOUNDS[path as keyof typeof requests];
      for (const [name, bound] of Object.entries(bounds) as [keyof Counts, number][]) {
        expect(Math.min(...rounds.map((round) => round[name])), `${name} of ${path}`).toBeLessThanOrEqual(bound);
      }
    }
  });
});

/** Counts only the main thread, because the database thread's writes depend on timing. */
async function countsOf(child: ChildProcess, order: 'count' | 'empty' = 'count') {
  child.send(order);
  const [{ heapBytes, collections }] = (await once(child, 'message')) as [{ heapBytes: number; collections: number }];
  const io = readFileSync(`/proc/${child.pid}/task/${child.pid}/io`, 'utf8');
  const count = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(io)![1]);
  return { allocatedBytes: heapBytes, collections, reads: count('syscr'), writes: count('syscw') };
}
