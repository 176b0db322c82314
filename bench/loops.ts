import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Client } from '#core/api/client.ts';
import { type Bench, ms, type Row, timed } from './harness.ts';
import { BODY, benchBeside, type Side, startPeers } from './peers.ts';
import { median } from './statistics.ts';

const [FEW_TURNS, MANY_TURNS] = [2, 12];
const CALLS = 20;

/** Measures the platform's overhead in a tool loop whose tool does nothing. */
export async function benchLoops({ platform, client, llmUrl, folder }: Bench): Promise<Row[]> {
  const publish = async (name: string, model: string, isDurable = false, ofTool: object = {}): Promise<Side> => {
    await publishLoop(client, name, model, isDurable, ofTool);
    const url = `${platform.url}/main/${name}/v1/run`;
    return { name: 'ours', url, headers: [`Authorization: Bearer ${platform.key}`] };
  };
  const few = await publish('bench-few-turns', `claude-bench-turns-${FEW_TURNS}`);
  const many = await publish('bench-many-turns', `claude-bench-turns-${MANY_TURNS}`);
  const durable = await publish('bench-durable', `claude-bench-turns-${MANY_TURNS}`, true);
  const none = await publish('bench-no-tool', 'claude-bench-turns-0');
  const call = async ({ url }: Side): Promise<void> => {
    const headers = { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json' };
    const answer = await (await fetch(url, { method: 'POST', headers, body: BODY })).text();
    if (!answer.includes('Hello, Ada!')) throw new Error(answer);
  };
  const ofTool = { command: WARM_TOOL, reuse: 'process' };
  const warm = await publish('bench-warm-tool', `claude-bench-turns-${FEW_TURNS}`, false, ofTool);
  const overhead = await benchTurn(
    () => call(few),
    () => call(many),
    llmUrl,
  );

  const journal = await benchJournal(
    () => call(many),
    () => call(durable),
  );

  const peers = await startPeers(llmUrl, folder);
  try {
    const plain = peers.sides.find(({ name }) => name === 'Mastra');
    if (peers.mastraTools === undefined || plain === undefined) return [overhead, journal];
    const withTools = await benchBeside(few, peers.mastraTools, {
      what: 'three LLM turns with two tool calls (a sandbox for each call, its tools processes in it), 4 connections',
      beside: 'Mastra, its tool a function',
      reach: 2,
    });
    const withoutTools = await benchBeside(none, plain, {
      what: 'a loop whose model answers at once and calls none of its tools, 4 connections',
      beside: 'Mastra, an agent without tools',
      reach: 3,
    });
    const withWarmTools = await benchBeside(warm, peers.mastraTools, {
      what: 'three LLM turns with two tool calls (sandboxed, the program of the tool stays), 4 connections',
      beside: 'Mastra, its tool a function',
      reach: 3,
    });
    return [overhead, journal, withTools, withWarmTools, withoutTools];
  } finally {
    peers.stop();
  }
}

/** Says its text back, without the SDK: a loop has files of its own only with a bundle. */
const WARM_TOOL = `python3 -c 'import json, sys; [print(json.dumps({"call": given["call"], "output": given["input"]}), flush=True) for given in map(json.loads, sys.stdin)]'`;

export const publishLoop = (client: Client, name: string, model: string, durable: boolean, ofTool: object) =>
  client.createAgent({
    body: {
      name,
      type: 'agent',
      description: 'Uses its tool',
      prompt: 'Use the tool.',
      supported_providers: ['anthropic'],
      default_models: { anthropic: model },
      required_secrets: [],
      loop: { max_turns: 20 },
      ...(durable && { durable }),
      custom_tools: [
        {
          name: 'echo',
          description: 'Says its text back',
          command: '/bin/true',
          input_schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
          ...ofTool,
        },
      ],
    },
  });

/** Returns the difference between two calls with different numbers of turns, in which the work per call cancels out. */
async function benchTurn(few: () => Promise<void>, many: () => Promise<void>, llmUrl: string): Promise<Row> {
  const bare = async (): Promise<void> => {
    await once(spawn('/bin/true', { stdio: 'ignore' }), 'close');
    await (await fetch(`${llmUrl}/v1/messages`, { method: 'POST', body: '{"model":"claude-bench"}' })).text();
  };
  const times: { few: number[]; many: number[]; bare: number[] } = { few: [], many: [], bare: [] };
  for (const warmUp of [true, ...Array<boolean>(CALLS).fill(false)]) {
    const took = { few: await timed(few), many: await timed(many), bare: await timed(bare) };
    if (warmUp) continue;
    times.few.push(took.few);
    times.many.push(took.many);
    times.bare.push(took.bare);
  }
  const turn = (median(times.many) - median(times.few)) / (MANY_TURNS - FEW_TURNS);
  const over = turn - median(times.bare);
  return {
    what: 'a turn of a tool loop, its tool a no-op',
    ours: ms(turn),
    beside: `the tool spawned bare and the LLM call: ${ms(median(times.bare))}`,
    result: `${ms(over)} over`,
    bound: 'at most 30 ms over',
    isMet: over <= 30,
  };
}

/** Returns what the journal of a durable loop adds to a turn. */
async function benchJournal(plain: () => Promise<void>, durable: () => Promise<void>): Promise<Row> {
  const times: { plain: number[]; durable: number[] } = { plain: [], durable: [] };
  for (const warmUp of [true, ...Array<boolean>(2 * CALLS).fill(false)]) {
    const took = { plain: await timed(plain), durable: await timed(durable) };
    if (warmUp) continue;
    times.plain.push(took.plain);
    times.durable.push(took.durable);
  }
  const turn = median(times.plain) / MANY_TURNS;
  const over = median(times.durable) / MANY_TURNS - turn;
  return {
    what: 'a turn of a durable tool loop, its tool a no-op',
    ours: ms(turn + over),
    beside: `the same loop without a journal: ${ms(turn)}`,
    result: `${ms(over)} over`,
    bound: 'at most 1 ms over',
    isMet: over <= 1,
  };
}
