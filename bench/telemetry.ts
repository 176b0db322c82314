import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '#core/api/client.ts';
import { load, ROOT, ROUNDS, type Row, startPlatform, startProgram } from './harness.ts';
import type { Load } from './load.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const BODY = '{"name":"Ada"}';
/** Spans are sent every five seconds: before a measurement they flow, and in it they are sent several times. */
const WARM_SECONDS = 6;
const SECONDS = 12;
/** Calls per second that the mark is about. */
const RATE = 500;
const AWAY_SECONDS = 60;
const MAX_LOSS_PERCENT = 5;

/** A collector that counts the runs it was sent, each once, and that can be away. */
async function startCollector() {
  const collector = { isAway: false, runs: new Set<string>(), url: '', close: () => {} };
  const server = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    if (!collector.isAway) {
      for (const [, id] of text.matchAll(/"spanId":"(\w+)"(?:,"parentSpanId":"\w+")?,"name":"invoke_agent/g)) {
        collector.runs.add(id!);
      }
    }
    response.writeHead(collector.isAway ? 503 : 200).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  collector.close = () => {
    server.close();
    server.closeAllConnections();
  };
  return collector;
}

/** Alternates calls of one prompt agent with and without the export of spans, and counts spans after a minute without a collector. */
export async function benchTelemetry(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const collector = await startCollector();
  const platform = await startPlatform(join(folder, 'data'), {
    PLATFORM_ANTHROPIC_URL: `http://127.0.0.1:${llm.port}/v1`,
    PLATFORM_OUTBOUND_HOSTS: '127.0.0.1',
  });
  try {
    const client = createClient({ baseUrl: platform.url, key: platform.key });
    const { workspaces } = await client.listWorkspaces({});
    const params = { workspace_id: workspaces[0]!.id };
    await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' } });
    await publishPrompt(client, 'bench-traced', 'claude-bench');
    const call = async (options: { readonly seconds: number; readonly rate?: number }): Promise<Load> => {
      const headers = [`Authorization: Bearer ${platform.key}`];
      const result = await load(`${platform.url}/main/bench-traced/v1/run`, headers, { ...options, body: BODY });
      if (result.failed > 0) throw new Error(`${result.failed} calls failed`);
      return result;
    };
    const switchTo = (isOn: boolean): Promise<unknown> =>
      isOn
        ? client.setTelemetry({ params, body: { endpoint: collector.url } })
        : client.deleteTelemetry({ params }).catch(() => {});
    const results: { readonly on: Load[]; readonly off: Load[] } = { on: [], off: [] };
    for (let round = -1; round < ROUNDS; round++) {
      for (const side of ['off', 'on'] as const) {
        await switchTo(side === 'on');
        await call({ seconds: WARM_SECONDS });
        const result = await call({ seconds: SECONDS });
        // The first round is warm-up.
        if (round >= 0) results[side].push(result);
        // Spans that are still to be sent would slow down the other side.
        await quiet(collector.runs);
      }
    }
    if (collector.runs.size === 0) throw new Error('no spans arrived');
    const rateOf = (side: 'on' | 'off'): number => median(results[side].map((each) => each.requestsPerSecond));
    const loss = (1 - rateOf('on') / rateOf('off')) * 100;

    await switchTo(true);
    collector.isAway = true;
    const countBefore = await endedRuns(client);
    collector.runs.clear();
    const away = await call({ seconds: AWAY_SECONDS, rate: RATE });
    const made = (await endedRuns(client)) - countBefore;
    collector.isAway = false;
    const until = Date.now() + 180_000;
    while (collector.runs.size < made && Date.now() < until) await sleep(500);
    return [
      {
        what: 'prompt agent, LLM answering at once, 20 connections, calls per second with the export of spans',
        ours: `${rateOf('on').toFixed(0)} /s`,
        beside: `without it ${rateOf('off').toFixed(0)} /s`,
        result: `${loss.toFixed(1)}% fewer`,
        bound: `at most ${MAX_LOSS_PERCENT}% fewer, at ${RATE}/s or more`,
        isMet: loss <= MAX_LOSS_PERCENT && rateOf('on') >= RATE,
      },
      {
        what: `runs of ${AWAY_SECONDS} s at ${RATE} calls a second whose spans are lost, while the collector is away`,
        ours: `${made - Math.min(made, collector.runs.size)} of ${made}`,
        beside: `${away.requestsPerSecond.toFixed(0)} calls/s`,
        result: `${made - Math.min(made, collector.runs.size)} lost`,
        bound: 'none',
        isMet: collector.runs.size >= made,
      },
    ];
  } finally {
    await platform.stop();
    collector.close();
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits until nothing has arrived for longer than the period in which spans are sent. */
async function quiet(arrived: ReadonlySet<string>): Promise<void> {
  for (let before = -1; before !== arrived.size; ) {
    before = arrived.size;
    await sleep(7_000);
  }
}

/** Returns the number of calls of the workspace so far. */
const endedRuns = async (client: ReturnType<typeof createClient>): Promise<number> =>
  (await client.getUsage({})).total_calls;
