import { join } from 'node:path';
import type { Client } from '#core/api/client.ts';
import { type Bench, load, ms, ROOT, ROUNDS, type Row, residentBytes, startProgram } from './harness.ts';
import type { Load } from './load.ts';
import { type Side, startPeers } from './peers.ts';
import { median } from './statistics.ts';

const BODY = '{"name":"Ada"}';

/** A prompt agent with a schema that greets the given name. */
export const publishPrompt = (client: Client, name: string, model: string, more: object = {}) =>
  client.createAgent({
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
export async function benchPrompts({ platform, client, llmUrl, folder }: Bench): Promise<Row[]> {
  const publish = async (name: string, model: string): Promise<Side> => {
    await publishPrompt(client, name, model);
    const url = `${platform.url}/main/${name}/v1/run`;
    return { name: 'ours', url, headers: [`Authorization: Bearer ${platform.key}`] };
  };
  const ours = await publish('bench-prompt', 'claude-bench');
  const oursSlow = await publish('bench-prompt-500', 'claude-bench-500');
  const bare = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench']);
  const bareSlow = await startProgram(join(ROOT, 'bench/bare-proxy.ts'), [llmUrl, 'claude-bench-500']);
  const proxy = (port: number): Side => ({ name: 'bare proxy', url: `http://127.0.0.1:${port}/`, headers: [] });
  const peers = await startPeers(llmUrl, folder);
  try {
    // Warm-up of all systems.
    for (const side of [ours, proxy(bare.port), ...peers.sides]) {
      await load(side.url, side.headers, { connections: 10, body: BODY });
    }
    const ten = await inTurn([ours, ...peers.sides, proxy(bare.port)], 10);
    const fifty = await inTurn([ours, ...peers.sides.filter(({ name }) => name === 'Restate')], 50);
    const slow = await inTurn([oursSlow, proxy(bareSlow.port)], 50);
    const memory = residentBytes(platform.process.pid!) / 1024 ** 2;
    const others = [...ten].filter(([name]) => name !== 'ours').map(([name, loads]) => `${name} ${perSecond(loads)}`);
    const restate = ten.get('Restate');
    const ratio = restate ? rate(ten.get('ours')!) / rate(restate) : Number.NaN;
    const keptUp = rate(fifty.get('ours')!) / rate(ten.get('ours')!);
    const waiting = rate(slow.get('ours')!) / rate(slow.get('bare proxy')!);
    return [
      {
        what: 'prompt agent call (authentication, schema, limits, metering, durable record), LLM answering at once, 10 connections',
        ours: `${perSecond(ten.get('ours')!)}, p99 ${ms(p99(ten.get('ours')!))}`,
        beside: others.join(', '),
        result: restate ? `${ratio.toFixed(1)} x Restate` : 'no peer installed',
        bound: 'at least 2.5 x, p99 at most 15 ms',
        isMet: ratio >= 2.5 && p99(ten.get('ours')!) <= 15,
      },
      {
        what: 'the same, 50 connections',
        ours: `${perSecond(fifty.get('ours')!)}, p99 ${ms(p99(fifty.get('ours')!))}, ${memory.toFixed(0)} MB`,
        beside: fifty.has('Restate') ? `Restate ${perSecond(fifty.get('Restate')!)}` : '-',
        result: `${keptUp.toFixed(2)} of 10 connections`,
        bound: 'no slower; under 250 MB',
        isMet: keptUp >= 0.95 && memory < 250,
      },
      {
        what: 'the same, LLM taking 500 ms, 50 at once',
        ours: perSecond(slow.get('ours')!),
        beside: `bare proxy ${perSecond(slow.get('bare proxy')!)}`,
        result: `${waiting.toFixed(2)} of it`,
        bound: 'at least 0.95',
        isMet: waiting >= 0.95,
      },
    ];
  } finally {
    peers.stop();
    bare.process.kill();
    bareSlow.process.kill();
  }
}
