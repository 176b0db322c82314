import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { load, ms, PEERS, ROUNDS, type Row, startProgram } from './harness.ts';
import type { Load } from './load.ts';
import { median } from './statistics.ts';

/** Input of every side. */
export const BODY = '{"name":"Ada"}';

/** System whose measurement alternates with the others. */
export interface Side {
  readonly name: string;
  readonly url: string;
  readonly headers: readonly string[];
  /** @default {@link BODY} */
  readonly body?: string;
}

export interface Peers {
  /** Restate and Mastra, each with one LLM call. */
  readonly sides: readonly Side[];
  /** Mastra's agent with a tool. */
  readonly mastraTools?: Side;
  /** The tool itself, behind Mastra's server. */
  readonly mastraTool?: Side;
  stop(): void;
}

/** Starts the peers that `npm run bench:peers` installed; returns none if it never ran. */
export async function startPeers(llmUrl: string, folder: string): Promise<Peers> {
  if (!existsSync(join(PEERS, 'node_modules'))) {
    process.stderr.write('the peers are not installed: npm run bench:peers\n');
    return { sides: [], stop() {} };
  }
  const mastra = await startProgram(join(PEERS, 'mastra.mjs'), [llmUrl]);
  const service = spawn(process.execPath, [join(PEERS, 'restate.mjs'), llmUrl, '9480'], { stdio: 'ignore' });
  const server = spawn(
    join(PEERS, 'node_modules/.bin/restate-server'),
    ['--base-dir', join(folder, 'restate'), '--log-filter', 'error'],
    // The npm package is a script that starts the server, so the process group ends both.
    { stdio: 'ignore', detached: true },
  );
  await untilOk('http://127.0.0.1:9070/deployments', { uri: 'http://127.0.0.1:9480' });
  await untilOk('http://127.0.0.1:8080/greeter/greet', { name: 'Ada' });
  const mastraUrl = `http://127.0.0.1:${mastra.port}`;
  return {
    sides: [
      { name: 'Restate', url: 'http://127.0.0.1:8080/greeter/greet', headers: [] },
      { name: 'Mastra', url: `${mastraUrl}/`, headers: [] },
    ],
    mastraTools: { name: 'Mastra', url: `${mastraUrl}/tools`, headers: [] },
    mastraTool: {
      ...{ name: 'Mastra', url: `${mastraUrl}/api/tools/echo/execute`, headers: [] },
      body: '{"data":{"text":"Ada"}}',
    },
    stop() {
      mastra.process.kill('SIGKILL');
      service.kill('SIGKILL');
      process.kill(-server.pid!, 'SIGKILL');
    },
  };
}

async function untilOk(url: string, json: object): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(json),
    }).catch(() => undefined);
    if (response?.ok) return;
    if (attempt > 100) throw new Error(`${url} does not answer: ${await response?.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Measures calls over 4 connections, in turn with those of a peer, of whose rate ours should reach a multiple. */
export async function benchBeside(
  ours: Side,
  peer: Side,
  { what, beside, reach }: { readonly what: string; readonly beside: string; readonly reach: number },
): Promise<Row> {
  const results: { ours: Load[]; peer: Load[] } = { ours: [], peer: [] };
  const run = async ({ url, headers, body = BODY }: Side): Promise<Load> => {
    const result = await load(url, headers, { connections: 4, body });
    if (result.failed > 0) throw new Error(`${url}: ${result.failed} calls failed`);
    return result;
  };
  await run(ours);
  await run(peer);
  for (let round = 0; round < ROUNDS; round++) {
    results.ours.push(await run(ours));
    results.peer.push(await run(peer));
  }
  const rate = (loads: readonly Load[]): number => median(loads.map(({ requestsPerSecond }) => requestsPerSecond));
  const p50 = (loads: readonly Load[]): string => ms(median(loads.map(({ p50Ms }) => p50Ms)));
  const ratio = rate(results.ours) / rate(results.peer);
  return {
    what,
    ours: `${rate(results.ours).toFixed(1)}/s, p50 ${p50(results.ours)}`,
    beside: `${beside}: ${rate(results.peer).toFixed(1)}/s, p50 ${p50(results.peer)}`,
    result: `${ratio.toFixed(2)} x`,
    bound: `at least ${reach} x`,
    isMet: ratio >= reach,
  };
}
