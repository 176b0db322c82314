import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '#core/api/client.ts';
import {
  type Bench,
  load,
  ms,
  type Platform,
  publishProgram,
  ROOT,
  ROUNDS,
  type Row,
  residentBytes,
  startPlatform,
  startProgram,
  timed,
} from './harness.ts';
import type { Load } from './load.ts';
import { median } from './statistics.ts';

/** Measures publishing and finding agents, calling programs, and starting a platform with many agents. */
export async function benchAgents({ platform, client, folder }: Bench): Promise<Row[]> {
  await publishProgram(client, 'bench-trivial', TRIVIAL_AGENT);
  const found = await benchGetAgent(platform, client);
  const calls = await benchCalls(platform, folder);
  const publishes = await benchPublishes(client);
  await platform.stop();
  return [found, ...calls, publishes, ...(await benchStart(join(folder, 'data')))];
}

const TRIVIAL_AGENT = 'import json, sys\nprint(json.dumps({"got": json.load(sys.stdin)}))\n';
const INPUT = { name: 'Ada', numbers: [1, 2, 3] };

async function benchGetAgent(platform: Platform, client: Client): Promise<Row> {
  const { agent } = await client.createAgent({ body: promptAgent('bench-get') });
  const address = `${platform.url}/agents/${agent.id}`;
  const headers = [`Authorization: Bearer ${platform.key}`];
  const body = await (await fetch(address, { headers: { authorization: `Bearer ${platform.key}` } })).text();
  const bare = await startProgram(join(ROOT, 'bench/bare-server.ts'), [body]);
  const ours: Load[] = [];
  const beside: Load[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(await load(address, headers));
    beside.push(await load(`http://127.0.0.1:${bare.port}/agents/${agent.id}`, headers));
  }
  bare.process.kill();
  if (ours.some(({ failed }) => failed > 0)) throw new Error('some requests failed');
  const ratio = median(ours.map((l, i) => l.requestsPerSecond / beside[i]!.requestsPerSecond));
  const rate = (loads: Load[]) => `${Math.round(median(loads.map((l) => l.requestsPerSecond)))} requests/s`;
  return {
    what: 'GET /agents/{id} with a key, 20 connections',
    ours: `${rate(ours)}, p99 ${ms(median(ours.map((l) => l.p99Ms)))}`,
    beside: `bare node:http, same bytes: ${rate(beside)}`,
    result: `${ratio.toFixed(2)} of it`,
    bound: 'at least 0.45',
    isMet: ratio >= 0.45,
  };
}

const promptAgent = (name: string) => ({
  name,
  type: 'prompt',
  description: 'Greets',
  prompt: 'Greet {{name}}.',
  supported_providers: ['any'],
});

/**
 * The sandbox's interpreter without this machine's packages, as in the sandbox: a version manager's wrapper, or
 * packages loaded at each start, would slow the baseline.
 */
function barePython(folder: string): string {
  execFileSync('python3', ['-m', 'venv', '--without-pip', folder]);
  return join(folder, 'bin/python3');
}

async function benchCalls(platform: Platform, folder: string): Promise<Row[]> {
  const python = barePython(join(folder, 'python'));
  writeFileSync(join(folder, 'main.py'), TRIVIAL_AGENT);
  const input = JSON.stringify(INPUT);
  const call = async (): Promise<void> => {
    const response = await fetch(`${platform.url}/main/bench-trivial/latest/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json' },
      body: input,
    });
    const answer = await response.text();
    if (!answer.includes('Ada')) throw new Error(answer);
  };
  const bare = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const child = spawn(python, ['main.py'], { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
      let text = '';
      child.stdout.on('data', (chunk) => {
        text += chunk;
      });
      child.on('close', () => (text.includes('Ada') ? resolve() : reject(new Error(text))));
      child.stdin.end(input);
    });
  for (let i = 0; i < 5; i++) await Promise.all([call(), bare()]);
  const single: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  for (let i = 0; i < 60; i++) {
    single.ours.push(await timed(call));
    single.beside.push(await timed(bare));
  }
  const fourAtOnce = (work: () => Promise<void>) => async () => {
    const lane = async () => {
      for (let i = 0; i < 10; i++) await work();
    };
    await Promise.all([lane(), lane(), lane(), lane()]);
  };
  const four: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  for (let round = 0; round < ROUNDS; round++) {
    four.ours.push(40_000 / (await timed(fourAtOnce(call))));
    four.beside.push(40_000 / (await timed(fourAtOnce(bare))));
  }
  const slower = median(single.ours) / median(single.beside);
  const throughput = median(four.ours) / median(four.beside);
  return [
    {
      what: 'call of a trivial Python agent, one at a time',
      ours: ms(median(single.ours)),
      beside: `python3 main.py, spawned bare: ${ms(median(single.beside))}`,
      result: `${slower.toFixed(2)} x`,
      bound: 'at most 1.1 x',
      isMet: slower <= 1.1,
    },
    {
      what: 'the same, 4 at once',
      ours: `${median(four.ours).toFixed(1)} calls/s`,
      beside: `4 bare spawns at once: ${median(four.beside).toFixed(1)}/s`,
      result: `${throughput.toFixed(2)} of it`,
      bound: 'at least 0.9',
      isMet: throughput >= 0.9,
    },
  ];
}

async function benchPublishes(client: Client): Promise<Row> {
  const times: number[] = [];
  for (let i = 0; i < 1000; i++) {
    const started = performance.now();
    await client.createAgent({ body: promptAgent(`bench-${i % 10}`) });
    times.push(performance.now() - started);
  }
  const first = median(times.slice(0, 100));
  const last = median(times.slice(-100));
  return {
    what: '1,000 publishes of a prompt agent',
    ours: `the last 100: ${ms(last)} each`,
    beside: `the first 100: ${ms(first)} each`,
    result: `${(last / first).toFixed(2)} x`,
    bound: 'at most 1.3 x',
    isMet: last / first <= 1.3,
  };
}

async function benchStart(dataFolder: string): Promise<Row[]> {
  const times: number[] = [];
  let memory = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now();
    const platform = await startPlatform(dataFolder);
    await (await fetch(`${platform.url}/health`)).text();
    times.push(performance.now() - started);
    if (round === ROUNDS - 1) {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      memory = residentBytes(platform.process.pid!);
    }
    await platform.stop();
  }
  const start = median(times) / 1000;
  const megabytes = memory / 1024 ** 2;
  return [
    {
      what: 'start to first answer, with data',
      ours: `${start.toFixed(2)} s`,
      beside: '-',
      result: `${start.toFixed(2)} s`,
      bound: 'under 2 s',
      isMet: start < 2,
    },
    {
      what: 'idle memory, started sandboxes included',
      ours: `${megabytes.toFixed(0)} MB`,
      beside: '-',
      result: `${megabytes.toFixed(0)} MB`,
      bound: 'under 150 MB',
      isMet: megabytes < 150,
    },
  ];
}
