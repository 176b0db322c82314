import { setTimeout } from 'node:timers/promises';
import type { Client } from '#core/api/client.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { type Bench, ROUNDS, type Row, timed } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const CASES = 100;
/** Concurrent runs of an evaluation. */
const AT_ONCE = 4;
const POLL_MS = 20;
const LIMIT_MS = 10_000;
const ABORT_LIMIT_MS = 2000;
const INPUT = { name: 'Ada' };

const seconds = (value: number): string => `${(value / 1000).toFixed(2)} s`;

/**
 * Alternates an evaluation of 100 cases with 100 calls of the same agent, and aborts one whose model answers after a minute. Both ends are what
 * a client sees.
 */
export async function benchEvals({ platform, client }: Bench): Promise<Row[]> {
  const { id } = (await publishPrompt(client, 'bench-evals', 'claude-bench')).agent;
  const slow = (await publishPrompt(client, 'bench-evals-slow', 'claude-bench-60000')).agent.id;
  const call = async () => {
    const headers = { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json' };
    const url = `${platform.url}/main/bench-evals/v1/run`;
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(INPUT) });
    if (!response.ok) throw new Error(`call: ${response.status}`);
    await response.arrayBuffer();
  };
  const ours: number[] = [];
  const beside: number[] = [];
  for (let round = -1; round < ROUNDS; round++) {
    const evaluation = await timed(() => evaluate(client, id));
    let left = CASES;
    const caller = async () => {
      while (left-- > 0) await call();
    };
    const calls = await timed(() => Promise.all(Array.from({ length: AT_ONCE }, caller)));
    // The first round is warm-up.
    if (round < 0) continue;
    ours.push(evaluation);
    beside.push(calls);
  }
  const aborts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) aborts.push(await abort(client, slow));
  const aborted = Math.max(...aborts);
  return [
    {
      what: `evaluation of ${CASES} cases, LLM answering at once, from the request to the verdict`,
      ours: seconds(median(ours)),
      beside: `${CASES} calls of the same agent, ${AT_ONCE} at once: ${seconds(median(beside))}`,
      result: seconds(median(ours)),
      bound: `at most ${LIMIT_MS / 1000} s`,
      isMet: median(ours) <= LIMIT_MS,
    },
    {
      what: `abort of an evaluation of ${CASES} cases, LLM answering after a minute, until no run is under way: the slowest of ${ROUNDS}`,
      ours: seconds(aborted),
      beside: '-',
      result: seconds(aborted),
      bound: `at most ${ABORT_LIMIT_MS / 1000} s`,
      isMet: aborted <= ABORT_LIMIT_MS,
    },
  ];
}

const start = async (client: Client, id: string): Promise<{ id: string; eval_id: string }> => {
  const tests = Array.from({ length: CASES }, () => ({
    vars: INPUT,
    assert: [{ type: 'contains', value: 'Hello, {{name}}!' }, { type: 'is-json' }],
  }));
  return { id, eval_id: (await client.createEval({ params: { id }, body: { tests } })).eval_id };
};

async function evaluate(client: Client, id: string): Promise<void> {
  const params = await start(client, id);
  for (;;) {
    const { status, verdict } = await client.getEval({ params });
    if (verdict === 'passed') return;
    if (status !== 'running') throw new Error(`the evaluation ended as ${status}, ${verdict}`);
    await setTimeout(POLL_MS);
  }
}

/** Returns how long an abort takes, in milliseconds, while the first runs wait for their model. */
async function abort(client: Client, id: string): Promise<number> {
  const params = await start(client, id);
  const { workspaces } = await client.listWorkspaces({});
  const runsUnderWay = async (): Promise<string[]> => {
    const { cases } = await client.listEvalCases({ params, query: { limit: 50 } });
    const made = cases.flatMap(({ runs }) => runs.map(({ run_id }) => run_id));
    const found = await Promise.all(
      made.map((run_id) =>
        client.getRun({ params: { workspace_id: workspaces[0]!.id, run_id } }).catch(() => undefined),
      ),
    );
    return found.flatMap((run) => (run === undefined || hasEnded(run.status) ? [] : run.id));
  };
  while ((await runsUnderWay()).length < AT_ONCE) await setTimeout(POLL_MS);
  return timed(async () => {
    await client.abortEval({ params });
    while ((await runsUnderWay()).length > 0) await setTimeout(POLL_MS);
  });
}
