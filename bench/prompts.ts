import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '#core/client.ts';
import { load, ms, PEERS, type Platform, ROOT, ROUNDS, type Row, residentBytes } from './harness.ts';
import type { Load } from './load.ts';
import { median } from './statistics.ts';

const BODY = '{"name":"Ada"}';

/** A program of the bench that prints its port. */
export async function startProgram(
  file: string,
  args: readonly string[],
): Promise<{ port: number; process: ChildProcess }> {
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { port: Number(String(line).trim()), process: child };
}

interface Side {
  readonly name: string;
  readonly url: string;
  readonly headers: readonly string[];
}

/** Restate's server and service, Mastra's agent: what `npm run bench:peers` installed; none of it, no rows of it. */
async function startPeers(llmUrl: string, folder: string): Promise<{ sides: Side[]; stop(): void }> {
  if (!existsSync(join(PEERS, 'node_modules'))) {
    process.stderr.write('the peers are not installed: npm run bench:peers\n');
    return { sides: [], stop() {} };
  }
  const mastra = await startProgram(join(PEERS, 'mastra.mjs'), [llmUrl]);
  const service = spawn(process.execPath, [join(PEERS, 'restate.mjs'), llmUrl, '9480'], { stdio: 'ignore' });
  const server = spawn(
    join(PEERS, 'node_modules/.bin/restate-server'),
    ['--base-dir', join(folder, 'restate'), '--log-filter', 'error'],
    { stdio: 'ignore' },
  );
  const children = [mastra.process, service, server];
  await untilOk('http://127.0.0.1:9070/deployments', { uri: 'http://127.0.0.1:9480' });
  await untilOk('http://127.0.0.1:8080/greeter/greet', { name: 'Ada' });
  return {
    sides: [
      { name: 'Restate', url: 'http://127.0.0.1:8080/greeter/greet', headers: [] },
      { name: 'Mastra', url: `http://127.0.0.1:${mastra.port}/`, headers: [] },
    ],
    stop: () => children.forEach((child) => void child.kill('SIGKILL')),
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

const rate = (loads: readonly Load[]): number => median(loads.map((l) => l.requestsPerSecond));
const perSecond = (loads: readonly Load[]): string => `${Math.round(rate(loads))}/s`;
const p99 = (loads: readonly Load[]): number => median(loads.map((l) => l.p99Ms));

async function inTurn(sides: readonly Side[], connections: number): Promise<Map<string, Load[]>> {
  const results = new Map<string, Load[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const { name, url, headers } of sides) {
      const result = await load(url, headers, { connections, body: BODY });
      if (result.failed > 0) throw new Error(`${name}: ${result.failed} calls failed`);
      results.get(name)!.push(result);
    }
  }
  return results;
}

/**
 * Prompt calls, the LLM being a program that costs next to nothing. Ours includes authentication, the schema check,
 * limits, metering and a durable run record.
 */
export async function benchPrompts(
  platform: Platform,
  client: Client,
  llmPort: number,
  folder: string,
): Promise<Row[]> {
  const llmUrl = `http://127.0.0.1:${llmPort}`;
  const publish = async (name: string, model: string): Promise<Side> => {
    await client.createAgent({
      body: {
        name,
        type: 'prompt',
        description: 'Greets',
        prompt: 'Greet {{name}}.',
        supported_providers: ['anthropic'],
        default_models: { anthropic: model },
        input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      },
    });
    return {
      name: 'ours',
      url: `${platform.url}/main/${name}/v1/run`,
      headers: [`Authorization: Bearer ${platform.key}`],
    };
  };
  const ours = await publish('bench-prompt', 'claude-bench');
  const oursSlow = await publish('bench-prompt-500', 'claude-bench-500');
  const bare = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench']);
  const bareSlow = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench-500']);
  const proxy = (port: number): Side => ({ name: 'bare proxy', url: `http://127.0.0.1:${port}/`, headers: [] });
  const peers = await startPeers(llmUrl, folder);
  try {
    // Warm-up, for everybody.
    for (const side of [ours, proxy(bare.port), ...peers.sides]) {
      await load(side.url, side.headers, { connections: 10, body: BODY });
    }
    const ten = await inTurn([ours, ...peers.sides, proxy(bare.port)], 10);
    const fifty = await inTurn([ours, ...peers.sides.slice(0, 1)], 50);
    const slow = await inTurn([oursSlow, proxy(bareSlow.port)], 50);
    const memory = residentBytes(platform.process.pid!) / 1024 ** 2;
    const others = [...ten].filter(([name]) => name !== 'ours').map(([name, loads]) => `${name} ${perSecond(loads)}`);
    const restate = ten.get('Restate');
    const ratio = restate ? rate(ten.get('ours')!) / rate(restate) : Number.NaN;
    const keptUp = rate(fifty.get('ours')!) / rate(ten.get('ours')!);
    const waiting = rate(slow.get('ours')!) / rate(slow.get('bare proxy')!);
    return [
      {
        what: 'prompt agent call, LLM answering at once, 10 connections',
        ours: `${perSecond(ten.get('ours')!)}, p99 ${ms(p99(ten.get('ours')!))}`,
        beside: others.join(', '),
        result: `${ratio.toFixed(1)} x Restate`,
        reach: 'at least 2.5 x, p99 at most 15 ms',
        reached: ratio >= 2.5 && p99(ten.get('ours')!) <= 15,
      },
      {
        what: 'the same, 50 connections',
        ours: `${perSecond(fifty.get('ours')!)}, p99 ${ms(p99(fifty.get('ours')!))}, ${memory.toFixed(0)} MB`,
        beside: fifty.has('Restate') ? `Restate ${perSecond(fifty.get('Restate')!)}` : '-',
        result: `${keptUp.toFixed(2)} of 10 connections`,
        reach: 'no slower; under 250 MB',
        reached: keptUp >= 0.95 && memory < 250,
      },
      {
        what: 'the same, LLM taking 500 ms, 50 at once',
        ours: perSecond(slow.get('ours')!),
        beside: `bare proxy ${perSecond(slow.get('bare proxy')!)}`,
        result: `${waiting.toFixed(2)} of it`,
        reach: 'at least 0.95',
        reached: waiting >= 0.95,
      },
    ];
  } finally {
    peers.stop();
    bare.process.kill();
    bareSlow.process.kill();
  }
}
