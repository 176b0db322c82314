import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { strToU8, zipSync } from 'fflate';
import type { Client } from '#core/api/client.ts';
import { type Bench, load, ms, type Platform, processorMs, ROOT, ROUNDS, type Row, startProgram } from './harness.ts';
import type { Load } from './load.ts';
import { median } from './statistics.ts';

const APP = join(ROOT, 'bench/service-app.mjs');
const IDLE_SERVICES = 50;
const IDLE_SECONDS = 20;
const ECHOES = 300;
const STREAM_BYTES = 1e9;
const POLL_MS = 20;
const MB = 1024 ** 2;

/** Local address of a server with its host name. */
interface Target {
  readonly port: number;
  readonly host: string;
}

/** Measures services on one machine: the cost of gateway and sandbox, compared with the same app as a bare process. */
export async function benchServices({ platform, client }: Bench): Promise<Row[]> {
  await publish(client, 'bench-app', 'node service-app.mjs', { 'service-app.mjs': readFileSync(APP) });
  const services = await servicesOf(client);
  const bare = await startProgram(APP);
  const beside: Target = { port: bare.port, host: `127.0.0.1:${bare.port}` };
  const { id, target } = await services.deploy('bench-app');
  await untilStatus(target, 200);
  try {
    const rows = [
      await benchRequests(target, beside),
      await benchEcho(target, beside),
      await benchStream(platform, target, beside),
      await benchRestart(services, id, target),
      await benchDeploy(services),
      await benchNeighbour(client, services, target),
    ];
    return [...rows, ...(await benchIdle(platform, services))];
  } finally {
    bare.process.kill();
  }
}

type Services = Awaited<ReturnType<typeof servicesOf>>;

async function servicesOf(client: Client) {
  const { id: workspace_id } = await client.getOrg({});
  const params = (service_id: string) => ({ params: { workspace_id, service_id } });
  return {
    async deploy(agent_name: string) {
      const { service } = await client.deployService({ params: { workspace_id }, body: { agent_name } });
      const { host, port } = new URL(service.service_url!);
      return { id: service.id, target: { host, port: Number(port) } };
    },
    change: (id: string, env: Record<string, string>) => client.updateService({ ...params(id), body: { env } }),
    remove: (id: string) => client.deleteService(params(id)),
    /** Resolves when this number of services have a ready instance. */
    async areHealthy(count: number): Promise<void> {
      for (;;) {
        const { services } = await client.listServices({ params: { workspace_id }, query: { limit: 200 } });
        if (services.filter(({ health_status }) => health_status === 'healthy').length >= count) return;
        await sleep(200);
      }
    },
  };
}

async function publish(
  client: Client,
  name: string,
  command: string,
  files: Record<string, Uint8Array>,
): Promise<void> {
  const { agent } = await client.createAgent({
    body: {
      name,
      type: 'tool',
      run_mode: 'always_on',
      description: 'Measured',
      supported_providers: ['any'],
      required_secrets: [],
      runtime: { command },
    },
  });
  const form = new FormData();
  form.set('file', new Blob([zipSync(files) as Uint8Array<ArrayBuffer>]), 'bundle.zip');
  await client.uploadBundle({ params: { id: agent.id }, body: form });
}

/** Returns status and body of one request; the status is 0 if there was no answer. */
function ask({ port, host }: Target): Promise<{ status: number; text: string }> {
  return new Promise((resolve) => {
    const failed = () => resolve({ status: 0, text: '' });
    const asked = httpRequest({ host: '127.0.0.1', port, headers: { host }, agent: false }, (answer) => {
      let text = '';
      answer.on('data', (data) => {
        text += data;
      });
      answer.on('end', () => resolve({ status: answer.statusCode!, text })).on('error', failed);
    });
    asked.on('error', failed).end();
  });
}

async function untilStatus(target: Target, status: number): Promise<void> {
  while ((await ask(target)).status !== status) await sleep(5);
}

async function benchRequests(target: Target, beside: Target): Promise<Row> {
  const results: { ours: Load[]; beside: Load[] } = { ours: [], beside: [] };
  const run = ({ port, host }: Target) => load(`http://127.0.0.1:${port}/`, [`Host: ${host}`]);
  await run(target);
  for (let round = 0; round < ROUNDS; round++) {
    results.ours.push(await run(target));
    results.beside.push(await run(beside));
  }
  if (results.ours.some(({ failed }) => failed > 0)) throw new Error('some requests to the service failed');
  const ratio = median(results.ours.map((ours, at) => ours.requestsPerSecond / results.beside[at]!.requestsPerSecond));
  const added = median(results.ours.map((ours, at) => ours.p99Ms - results.beside[at]!.p99Ms));
  const shown = (loads: readonly Load[]) =>
    `${Math.round(median(loads.map((l) => l.requestsPerSecond)))}/s, p99 ${ms(median(loads.map((l) => l.p99Ms)))}`;
  return {
    what: 'request to a service (gateway and sandbox), 20 connections',
    ours: shown(results.ours),
    beside: `the same app bare: ${shown(results.beside)}`,
    result: `${ratio.toFixed(2)} of it, p99 ${ms(added)} more`,
    bound: 'at least 0.25, less than 10 ms',
    isMet: ratio >= 0.25 && added < 10,
  };
}

async function benchEcho(target: Target, beside: Target): Promise<Row> {
  const times: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  const sockets = { ours: await upgrade(target), beside: await upgrade(beside) };
  for (let round = 0; round < ROUNDS; round++) {
    times.ours.push(await echo(sockets.ours));
    times.beside.push(await echo(sockets.beside));
  }
  for (const socket of Object.values(sockets)) socket.destroy();
  const over = median(times.ours.map((ours, at) => ours - times.beside[at]!));
  return {
    what: 'echo over an upgraded connection of a service, there and back',
    ours: `p50 ${median(times.ours).toFixed(2)} ms`,
    beside: `the same app bare: ${median(times.beside).toFixed(2)} ms`,
    result: `${over.toFixed(2)} ms more`,
    bound: 'at most 1.5 ms more',
    isMet: over <= 1.5,
  };
}

async function upgrade({ port, host }: Target): Promise<Socket> {
  const headers = { host, connection: 'upgrade', upgrade: 'echo' };
  const asked = httpRequest({ host: '127.0.0.1', port, headers, agent: false }).end();
  const [, socket] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket];
  return socket.setNoDelay(true);
}

/** Returns the median round-trip time of a small message. */
async function echo(socket: Socket): Promise<number> {
  const message = Buffer.alloc(32, 'x');
  const times: number[] = [];
  for (let count = 0; count < ECHOES; count++) {
    const began = performance.now();
    socket.write(message);
    for (let bytes = 0; bytes < message.length; ) bytes += ((await once(socket, 'data')) as [Buffer])[0].length;
    times.push(performance.now() - began);
  }
  return median(times);
}

async function benchStream(platform: Platform, target: Target, beside: Target): Promise<Row> {
  const times: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  await stream(target);
  const before = proportionalBytes(platform.process.pid!);
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, proportionalBytes(platform.process.pid!));
  }, 100);
  for (let round = 0; round < ROUNDS; round++) {
    times.ours.push(await stream(target));
    times.beside.push(await stream(beside));
  }
  clearInterval(watch);
  const ratio = median(times.ours.map((ours, at) => times.beside[at]! / ours));
  const grown = (most - before) / MB;
  const rate = (list: readonly number[]) => `${Math.round(STREAM_BYTES / 1000 / median(list))} MB/s`;
  return {
    what: 'a stream of 1 GB from a service',
    ours: `${rate(times.ours)}, the platform at most ${Math.round(grown)} MB larger than after the first`,
    beside: `the same app bare: ${rate(times.beside)}`,
    result: `${ratio.toFixed(2)} of it`,
    bound: 'at least 0.5, at most 32 MB larger',
    isMet: ratio >= 0.5 && grown <= 32,
  };
}

/** Returns the milliseconds until all bytes have arrived. */
async function stream({ port, host }: Target): Promise<number> {
  const began = performance.now();
  const path = `/bytes/${STREAM_BYTES}`;
  const asked = httpRequest({ host: '127.0.0.1', port, path, headers: { host }, agent: false }).end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  let bytes = 0;
  answer.on('data', (data: Buffer) => {
    bytes += data.length;
  });
  await once(answer, 'end');
  if (bytes !== STREAM_BYTES) throw new Error(`${bytes} bytes came`);
  return performance.now() - began;
}

async function benchRestart(services: Services, id: string, target: Target): Promise<Row> {
  const gaps: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const word = `round ${round}`;
    const polled: { at: number; isAnswered: boolean }[] = [];
    const changed = services.change(id, { WORD: word });
    for (let isNew = false; !isNew; ) {
      const at = performance.now();
      const { status, text } = await ask(target);
      polled.push({ at, isAnswered: status === 200 });
      isNew = status === 200 && JSON.parse(text).word === word;
      await sleep(Math.max(0, at + POLL_MS - performance.now()));
    }
    await changed;
    gaps.push(longestGap(polled));
    // The old instance ends before the next round.
    await services.areHealthy(1);
  }
  const gap = median(gaps);
  return {
    what: 'new environment of a service, polled every 20 ms',
    ours: `${Math.round(gap)} ms without an answer`,
    beside: '-',
    result: `${Math.round(gap)} ms`,
    bound: 'less than 2 s',
    isMet: gap < 2000,
  };
}

/** Returns the longest time from a failed request to the next successful one. */
function longestGap(polled: readonly { at: number; isAnswered: boolean }[]): number {
  let [longest, since] = [0, undefined as number | undefined];
  for (const { at, isAnswered } of polled) {
    if (!isAnswered) since ??= at;
    else if (since !== undefined) {
      longest = Math.max(longest, at - since);
      since = undefined;
    }
  }
  return longest;
}

async function benchDeploy(services: Services): Promise<Row> {
  const times: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    let began = performance.now();
    const { id, target } = await services.deploy('bench-app');
    await untilStatus(target, 200);
    const ours = performance.now() - began;
    await services.remove(id);

    began = performance.now();
    const bare = await startProgram(APP);
    await untilStatus({ port: bare.port, host: '127.0.0.1' }, 200);
    const beside = performance.now() - began;
    bare.process.kill();
    if (round === 0) continue;
    times.ours.push(ours);
    times.beside.push(beside);
  }
  const over = median(times.ours.map((ours, at) => ours - times.beside[at]!));
  return {
    what: 'deploy of a small Node service to its first 200',
    ours: ms(median(times.ours)),
    beside: `\`node app.js\` to its first 200: ${ms(median(times.beside))}`,
    result: `${ms(over)} more`,
    bound: 'at most 1 s more',
    isMet: over <= 1000,
  };
}

async function benchIdle(platform: Platform, services: Services): Promise<Row[]> {
  const before = treeOf(platform.process.pid!).reduce((sum, pid) => sum + proportionalBytes(pid), 0);
  const ids = await Promise.all(Array.from({ length: IDLE_SERVICES }, () => services.deploy('bench-app')));
  await services.areHealthy(IDLE_SERVICES + 1);
  const bare: ChildProcess[] = [];
  for (let count = 0; count < IDLE_SERVICES; count++) bare.push((await startProgram(APP)).process);
  // The processes settle: garbage collections after the start, and the first checks of the watchers.
  await sleep(10_000);
  const bytes = (pids: readonly number[]) => pids.reduce((sum, pid) => sum + proportionalBytes(pid), 0);
  const ours = bytes(treeOf(platform.process.pid!)) - before;
  const beside = bytes(bare.map(({ pid }) => pid!));
  const cpu = () => treeOf(platform.process.pid!).reduce((sum, pid) => sum + processorMs(pid), 0);
  const cpuBare = () => bare.reduce((sum, { pid }) => sum + processorMs(pid!), 0);
  const shares: { ours: number[]; beside: number[] } = { ours: [], beside: [] };
  for (let round = 0; round < 3; round++) {
    const [first, firstBare] = [cpu(), cpuBare()];
    await sleep(IDLE_SECONDS * 1000);
    shares.ours.push((cpu() - first) / IDLE_SECONDS / 10);
    shares.beside.push((cpuBare() - firstBare) / IDLE_SECONDS / 10);
  }
  for (const child of bare) child.kill();
  await Promise.all(ids.map(({ id }) => services.remove(id)));
  const ratio = ours / beside;
  const [share, shareBare] = [median(shares.ours), median(shares.beside)];
  return [
    {
      what: `${IDLE_SERVICES} idle services, memory (shared pages in parts)`,
      ours: `${Math.round(ours / MB)} MB`,
      beside: `${IDLE_SERVICES} bare processes: ${Math.round(beside / MB)} MB`,
      result: `${ratio.toFixed(2)} x`,
      bound: 'at most 1.3 x',
      isMet: ratio <= 1.3,
    },
    {
      what: `${IDLE_SERVICES} idle services, processor of the whole platform`,
      ours: `${share.toFixed(2)}% of a core`,
      beside: `${IDLE_SERVICES} bare processes: ${shareBare.toFixed(2)}%`,
      result: `${share.toFixed(2)}%`,
      bound: 'under 1%',
      isMet: share < 1,
    },
  ];
}

/** Service that strains the machine: it sends, logs and starts much, and uses much memory. */
const BAD_APP = `
const http = require('node:http');
const { spawn } = require('node:child_process');
const line = 'x'.repeat(200);
http.createServer((request, response) => response.end('x'.repeat(1e6))).listen(process.env.PORT);
const log = () => { for (let count = 0; count < 50; count++) console.log(line); setImmediate(log); };
log();
setInterval(() => spawn('true'), 50);
const kept = [];
setInterval(() => kept.push(Buffer.alloc(4 << 20, 1)), 100);
`;

/**
 * Measures calls of one tenant's service next to one that floods its log, forks, and is restarted for its memory use.
 */
async function benchNeighbour(client: Client, services: Services, target: Target): Promise<Row> {
  await publish(client, 'bench-bad', 'node bad.js', { 'bad.js': strToU8(BAD_APP) });
  // The load is below the machine's capacity, so that the result shows fairness and not a lack of CPUs.
  const call = () => load(`http://127.0.0.1:${target.port}/`, [`Host: ${target.host}`], { connections: 4, rate: 100 });
  const alone: Load[] = [];
  const beside: Load[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(await call());
    const bad = await services.deploy('bench-bad');
    await untilStatus(bad.target, 200);
    beside.push(await call());
    await services.remove(bad.id);
  }
  const ratio = median(beside.map((with_, at) => with_.p50Ms / alone[at]!.p50Ms));
  const p50 = (loads: readonly Load[]) => `p50 ${median(loads.map((l) => l.p50Ms)).toFixed(2)} ms`;
  return {
    what: 'request to a service, 100 a second, while another one floods its log, forks and takes its memory',
    ours: p50(beside),
    beside: `without that other one: ${p50(alone)}`,
    result: `${ratio.toFixed(2)} x`,
    bound: 'at most 1.1 x',
    isMet: ratio <= 1.1,
  };
}

/** Returns a process and its descendants. */
function treeOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    return [pid, ...children.flatMap((child) => treeOf(Number(child)))];
  } catch {
    return [];
  }
}

/** Returns the memory of a process; a page that n processes share counts as 1/n. */
function proportionalBytes(pid: number): number {
  try {
    return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
