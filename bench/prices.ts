import { setTimeout } from 'node:timers/promises';
import type { Client } from '#core/api/client.ts';
import { type Bench, exactProcessorMs, ms, ROUNDS, type Row, timed } from './harness.ts';
import { publishLoop } from './loops.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

/** Calls of one side in a round, one after another. */
const CALLS = 40;
const GATE_LIMIT_MS = 60_000;
const INPUT = { name: 'Ada' };
const SUITE = 'tests:\n  - vars: {name: Ada}\n    assert: [{type: contains, value: Hello}]\n';
/** Turns of a loop, of which each is a step of its journal. */
const TURNS = 5;

interface Feature {
  readonly what: string;
  readonly on: () => Promise<unknown>;
  readonly off: () => Promise<unknown>;
  /** Maximum of the processor time with it, as a multiple of that without it. */
  readonly maxRatio: number;
}

/**
 * Measures what each feature adds to a call of an agent that has it. The same call is made with the feature and without it, in turn.
 * `telemetry.ts` measures the export of spans.
 */
export async function benchPrices({ platform, client }: Bench): Promise<Row[]> {
  const call =
    (agent: string, version = 'v1') =>
    () =>
      client.callAgent({ params: { org: 'main', agent, version, endpoint: 'run' }, body: INPUT });
  await publishPrompt(client, 'plain', 'claude-bench');
  const { id } = (await publishPrompt(client, 'named', 'claude-bench')).agent;
  await publishPrompt(client, 'named', 'claude-bench');
  const canary = { version: 'v2', percent: 50 };
  await client.putChannel({ params: { id, channel: 'prod' }, body: { version: 'v1', canary } });
  await publishGated(client);
  await publishPrompt(client, 'scored', 'claude-bench', {
    evals: { online: { sample: 0.01, assert: [{ type: 'contains', value: 'Hello' }] } },
  });
  await publishLoop(client, 'loop', `claude-bench-turns-${TURNS}`, false, {});
  await publishLoop(client, 'journal', `claude-bench-turns-${TURNS}`, true, {});
  const features: Feature[] = [
    { what: 'the journal of a durable loop of six turns', on: call('journal'), off: call('loop'), maxRatio: 1.25 },
    { what: 'a session', on: await sessionOf(client), off: call('plain', 'latest'), maxRatio: 2 },
    { what: 'a channel with a canary', on: call('named', 'prod'), off: call('plain'), maxRatio: 1.1 },
    { what: 'a gate that has opened', on: call('gated', 'latest'), off: call('plain', 'latest'), maxRatio: 1.1 },
    { what: 'scores of a hundredth of the runs', on: call('scored'), off: call('plain'), maxRatio: 1.1 },
  ];
  const rows: Row[] = [];
  for (const feature of features) rows.push(await rowOf(feature, platform.process.pid!));
  return rows;
}

async function publishGated(client: Client): Promise<void> {
  const gated = { evals: { gate: true }, eval_files: { 'smoke.yaml': SUITE } };
  const { agent } = await publishPrompt(client, 'gated', 'claude-bench', gated);
  const until = Date.now() + GATE_LIMIT_MS;
  while ((await client.getAgent({ params: { id: agent.id } })).gate?.status !== 'passed') {
    if (Date.now() > until) throw new Error('the gate did not open in time');
    await setTimeout(100);
  }
}

async function sessionOf(client: Client): Promise<() => Promise<unknown>> {
  const workspace_id = (await client.getOrg({})).id;
  const { id: session_id } = await client.openSession({ params: { workspace_id }, body: { agent: 'main/plain' } });
  return () => client.sendSessionMessage({ params: { workspace_id, session_id }, body: { input: INPUT } });
}

async function rowOf({ what, on, off, maxRatio }: Feature, pid: number): Promise<Row> {
  const sides = [on, off].map((act) => ({ act, times: [] as number[], processor: [] as number[] }));
  for (let round = -1; round < ROUNDS; round++) {
    for (const { act, times, processor } of sides) {
      const before = exactProcessorMs(pid);
      const took: number[] = [];
      for (let count = 0; count < CALLS; count++) took.push(await timed(act));
      // The first round is warm-up.
      if (round < 0) continue;
      times.push(...took);
      processor.push((exactProcessorMs(pid) - before) / CALLS);
    }
  }
  const [ours, beside] = sides.map(({ times, processor }) => ({ p50: median(times), processor: median(processor) }));
  const ratio = ours!.processor / beside!.processor;
  return {
    what: `a call with ${what}: processor time, all threads`,
    ours: `${ours!.processor.toFixed(2)} ms, p50 ${ms(ours!.p50)}`,
    beside: `without it ${beside!.processor.toFixed(2)} ms, p50 ${ms(beside!.p50)}`,
    result: `${ratio.toFixed(2)} x`,
    bound: `at most ${maxRatio} x`,
    isMet: ratio <= maxRatio,
  };
}
