import { join } from 'node:path';
import type { Client } from '#core/api/client.ts';
import {
  type Bench,
  exactProcessorMs,
  load,
  ms,
  ROOT,
  ROUNDS,
  type Row,
  residentBytes,
  startProgram,
} from './harness.ts';
import type { Load } from './load.ts';
import { type Side, startPeers } from './peers.ts';
import { median } from './statistics.ts';

const BODY = '{"name":"Ada"}';

/** Prompt agent with a schema that greets the given name. */
export const publishPrompt = (client: Client, name: string, model: string, more: object = {}, headers = {}) =>
  client.createAgent({
    headers,
    body: {
      name,
      type: 'prompt',
      description: 'Greets',
      prompt: 'Greet {{name}}.',
      supported_providers: ['anthropic'],
      default_models: { anthropic: model },
      input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      ...more,
    },
  });

/** Result of a load test with the CPU time of the system under test. */
interface Measured extends Load {
  /** Absent if the system is not a single process. */
  readonly processorMs?: number;
}

/** One side of the comparison, with its process. */
interface Watched extends Side {
  readonly pid?: number;
  /** Targets that share the connections equally. @default - `url` with `headers` */
  readonly parts?: readonly Pick<Side, 'url' | 'headers'>[];
}

const rate = (loads: readonly Load[]): number => median(loads.map((l) => l.requestsPerSecond));
const perSecond = (loads: readonly Load[]): string => `${Math.round(rate(loads))}/s`;
const p99 = (loads: readonly Load[]): number => median(loads.map((l) => l.p99Ms));
const firstPiece = (loads: readonly Load[]): number => median(loads.map((l) => l.firstPieceMs ?? Number.NaN));
const eachCpu = (loads: readonly Measured[]): number =>
  median(loads.map((l) => (l.processorMs ?? Number.NaN) / (l.requestsPerSecond * SECONDS)));

const SECONDS = 3;
const STREAM = 'Accept: text/event-stream';

async function inTurn(sides: readonly Watched[], connections: number): Promise<Map<string, Measured[]>> {
  const results = new Map<string, Measured[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const side of sides) {
      const { name, pid } = side;
      const before = pid === undefined ? 0 : exactProcessorMs(pid);
      const result = await loadParts(side, connections);
      if (result.failed > 0) throw new Error(`${name}: ${result.failed} calls failed`);
      const used = pid === undefined ? {} : { processorMs: exactProcessorMs(pid) - before };
      results.get(name)!.push({ ...result, ...used });
    }
  }
  return results;
}

async function loadParts({ url, headers, parts = [{ url, headers }] }: Watched, connections: number): Promise<Load> {
  const options = { connections: connections / parts.length, seconds: SECONDS, body: BODY };
  const loads = await Promise.all(parts.map((part) => load(part.url, part.headers, options)));
  const requestsPerSecond = loads.reduce((sum, each) => sum + each.requestsPerSecond, 0);
  return { ...loads[0]!, requestsPerSecond, failed: loads.reduce((sum, each) => sum + each.failed, 0) };
}

const BARE = 'bare proxy';
const WORKSPACES = 4;
/** Model for the calls without the SDK. */
const OPENAI_MODEL = 'gpt-9-bench';

/** The agent in several workspaces, because the load exceeds the concurrency limit of one. */
async function inWorkspaces(client: Client, side: Watched): Promise<Watched> {
  const parts: Side[] = [];
  for (let count = 0; count < WORKSPACES; count++) {
    const { workspace } = await client.createWorkspace({ body: { name: `Bench ${count}` } });
    const own = { 'x-workspace-id': workspace.id };
    await client.putSecret({
      params: { workspace_id: workspace.id },
      body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' },
    });
    await publishPrompt(client, 'bench-prompt-500', 'claude-bench-500', {}, own);
    const url = new URL(`/${workspace.slug}/bench-prompt-500/v1/run`, side.url).href;
    parts.push({ ...side, url, headers: [...side.headers, `X-Workspace-Id: ${workspace.id}`] });
  }
  return { ...side, parts };
}

/**
 * Measures prompt calls with an LLM of minimal cost. The platform's side includes authentication, schema validation,
 * limits, metering and a durable run record.
 */
export async function benchPrompts({ platform, client, llmUrl, folder }: Bench): Promise<Row[]> {
  const publish = async (name: string, model: string, more?: object): Promise<Watched> => {
    await publishPrompt(client, name, model, more);
    const url = `${platform.url}/main/${name}/v1/run`;
    return { name: 'ours', url, headers: [`Authorization: Bearer ${platform.key}`], pid: platform.process.pid! };
  };
  const ours = await publish('bench-prompt', 'claude-bench');
  const oursSlow = await publish('bench-prompt-500', 'claude-bench-500');
  const oursOpenai = await publish('bench-openai', '', {
    supported_providers: ['openai'],
    default_models: { openai: OPENAI_MODEL },
  });
  const bare = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench']);
  const bareSlow = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench-500']);
  const bareOpenai = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, OPENAI_MODEL]);
  const proxy = ({ port, process: { pid } }: typeof bare): Watched => ({
    name: BARE,
    url: `http://127.0.0.1:${port}/`,
    headers: [],
    pid,
  });
  const peers = await startPeers(llmUrl, folder);
  try {
    // The first load warms up all systems.
    for (const side of [ours, proxy(bare), ...peers.sides]) {
      await load(side.url, side.headers, { connections: 10, body: BODY });
    }
    const model = { name: 'model', url: `${llmUrl}/v1/messages`, headers: [] };
    const ten = await inTurn([ours, ...peers.sides, proxy(bare), model], 10);
    const fifty = await inTurn([ours, ...peers.sides.filter(({ name }) => name === 'Restate')], 50);
    const memory = residentBytes(platform.process.pid!) / 1024 ** 2;
    const others = [...peers.sides.map(({ name }) => name), BARE].map((name) => `${name} ${perSecond(ten.get(name)!)}`);
    const restate = ten.get('Restate');
    const ratio = restate ? rate(ten.get('ours')!) / rate(restate) : Number.NaN;
    const cpu = eachCpu(ten.get('ours')!) / eachCpu(ten.get(BARE)!);
    const fiftyP99 = p99(fifty.get('ours')!);
    const keptUp = rate(fifty.get('ours')!) / rate(ten.get('ours')!);
    return [
      {
        what: 'prompt agent call (authentication, schema, limits, metering, durable record), LLM answering at once, 10 connections',
        ours: `${perSecond(ten.get('ours')!)}, p99 ${ms(p99(ten.get('ours')!))}`,
        beside: `${others.join(', ')}; the LLM alone ${perSecond(ten.get('model')!)}`,
        result: restate ? `${ratio.toFixed(1)} x Restate` : 'no peer installed',
        bound: 'at least 5 x, p99 at most 15 ms',
        isMet: ratio >= 5 && p99(ten.get('ours')!) <= 15,
      },
      {
        what: 'processor time of that call, all threads',
        ours: `${eachCpu(ten.get('ours')!).toFixed(2)} ms`,
        beside: `bare proxy ${eachCpu(ten.get(BARE)!).toFixed(2)} ms`,
        result: `${cpu.toFixed(1)} x`,
        bound: 'at most 6 x',
        isMet: cpu <= 6,
      },
      {
        what: 'the same call, 50 connections',
        ours: `${perSecond(fifty.get('ours')!)}, p99 ${ms(fiftyP99)}, ${memory.toFixed(0)} MB`,
        beside: fifty.has('Restate') ? `Restate ${perSecond(fifty.get('Restate')!)}` : '-',
        result: `${keptUp.toFixed(2)} of 10 connections`,
        bound: 'faster; p99 at most 50 ms; under 250 MB',
        isMet: keptUp > 1 && fiftyP99 <= 50 && memory < 250,
      },
      await openaiRow([oursOpenai, proxy(bareOpenai)]),
      await slowRow([oursSlow, proxy(bareSlow)], 50, 0.97),
      await slowRow([await inWorkspaces(client, oursSlow), inParts(proxy(bareSlow))], 500, 0.9),
      ...(await streamRows([ours, proxy(bare)])),
    ];
  } finally {
    peers.stop();
    bare.process.kill();
    bareSlow.process.kill();
    bareOpenai.process.kill();
  }
}

async function openaiRow(sides: readonly Watched[]): Promise<Row> {
  const ten = await inTurn(sides, 10);
  const cpu = eachCpu(ten.get('ours')!) / eachCpu(ten.get(BARE)!);
  return {
    what: "the same call to OpenAI's Responses API, 10 connections: processor time, all threads",
    ours: `${eachCpu(ten.get('ours')!).toFixed(2)} ms, ${perSecond(ten.get('ours')!)}`,
    beside: `bare proxy ${eachCpu(ten.get(BARE)!).toFixed(2)} ms, ${perSecond(ten.get(BARE)!)}`,
    result: `${cpu.toFixed(1)} x`,
    bound: 'at most 6 x',
    isMet: cpu <= 6,
  };
}

async function slowRow(sides: readonly Watched[], connections: number, reach: number): Promise<Row> {
  const slow = await inTurn(sides, connections);
  const waiting = rate(slow.get('ours')!) / rate(slow.get(BARE)!);
  return {
    what: `the same call, LLM taking 500 ms, ${connections} at once`,
    ours: perSecond(slow.get('ours')!),
    beside: `bare proxy ${perSecond(slow.get(BARE)!)}`,
    result: `${waiting.toFixed(2)} of it`,
    bound: `at least ${reach}`,
    isMet: waiting >= reach,
  };
}

/** The number of load processes equals the other side's. */
const inParts = (side: Watched): Watched => ({ ...side, parts: Array.from({ length: WORKSPACES }, () => side) });

/** The bare proxy forwards the LLM's stream unchanged. */
async function streamRows(sides: readonly Watched[]): Promise<Row[]> {
  const streamed = sides.map((side) => ({ ...side, headers: [...side.headers, STREAM] }));
  const alone = await inTurn(streamed, 1);
  const ten = await inTurn(streamed, 10);
  const more = firstPiece(alone.get('ours')!) - firstPiece(alone.get(BARE)!);
  const share = rate(ten.get('ours')!) / rate(ten.get(BARE)!);
  return [
    {
      what: 'the same call, streamed: from the first piece of the LLM to its arrival, one at a time',
      ours: ms(firstPiece(alone.get('ours')!)),
      beside: `bare proxy ${ms(firstPiece(alone.get(BARE)!))}`,
      result: `${ms(more)} more`,
      bound: 'at most 3 ms more',
      isMet: more <= 3,
    },
    {
      what: 'streams of 21 pieces, 10 connections',
      ours: perSecond(ten.get('ours')!),
      beside: `bare proxy ${perSecond(ten.get(BARE)!)}`,
      result: `${share.toFixed(2)} of it`,
      bound: 'at least 0.5',
      isMet: share >= 0.5,
    },
  ];
}
