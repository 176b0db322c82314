import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { operatorTelemetry } from '#core/runs/telemetry/operator.ts';
import { tracesBody } from '#core/runs/telemetry/otlp.ts';
import { postOtlp } from '#core/runs/telemetry/post-otlp.ts';
import { Counter, gauge, Histogram } from '#local/process/metrics.ts';
import { metricsBody } from '#local/telemetry/otlp-metrics.ts';

/** The OpenTelemetry Collector, built from pinned modules, takes what the platform sends and passes it on. */
const SOURCE = join(import.meta.dirname, 'collector');
const FOLDER = join(import.meta.dirname, 'clients/node_modules/.collector');
const PROGRAM = join(FOLDER, 'collector');
const GOLDEN = join(import.meta.dirname, '../../core/runs/telemetry/golden');
const run = promisify(execFile);
const noGo = spawnSync('go', ['version']).status === 0 ? undefined : 'no Go';

async function build(): Promise<void> {
  if (existsSync(PROGRAM)) return;
  mkdirSync(FOLDER, { recursive: true });
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-mod=readonly' };
  await run('go', ['build', '-trimpath', '-o', PROGRAM, '.'], { cwd: SOURCE, env });
}

/** The collector leaves out empty lists, as Protobuf does. */
const withoutEmpty = (sent: readonly object[]): object[] =>
  JSON.parse(JSON.stringify(sent, (_, value) => (Array.isArray(value) && value.length === 0 ? undefined : value)));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts the collector. `passedOn` has the bodies that it sends, in JSON. */
async function startCollector() {
  // biome-ignore lint/suspicious/noExplicitAny: the test looks into every part of it.
  const passedOn: { path: string; body: any }[] = [];
  const behind = createServer(async (request, response) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    passedOn.push({ path: request.url!, body });
    response.setHeader('content-type', 'application/json').end('{}');
  }).listen(0, '127.0.0.1');
  await once(behind, 'listening');
  const port = await freePort();
  const pipeline = { receivers: ['otlp'], exporters: ['otlp_http'] };
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: {
      otlp_http: {
        endpoint: `http://127.0.0.1:${(behind.address() as AddressInfo).port}`,
        ...{ encoding: 'json', compression: 'none', sending_queue: { enabled: false } },
      },
    },
    service: {
      telemetry: { metrics: { level: 'none' }, logs: { level: 'error' } },
      pipelines: { traces: pipeline, metrics: pipeline },
    },
  };
  const collector = spawn(PROGRAM, ['--config', `yaml:${JSON.stringify(config)}`], { stdio: 'inherit' });
  onTestFinished(() => {
    collector.kill();
    behind.close();
    behind.closeAllConnections();
  });
  const endpoint = `http://127.0.0.1:${port}`;
  await expect
    .poll(
      () =>
        fetch(endpoint).then(
          ({ status }) => status,
          () => 0,
        ),
      { timeout: 30_000 },
    )
    .toBeGreaterThan(0);
  const settings = { serviceName: 'x', attributes: {}, sampler: 'always_on', ratio: 1 } as const;
  const { exchanges, url } = operatorTelemetry({ ...settings, endpoint, headers: async () => ({}) });
  const send = (signal: 'traces' | 'metrics', body: string) =>
    postOtlp(exchanges, { url: url.replace('traces', signal), headers: {} }, body);
  return { passedOn, send };
}

test('spans and metrics pass through a collector unchanged', { timeout: 900_000 }, async ({ skip }) => {
  skip(noGo !== undefined, noGo);
  await build();
  const { passedOn, send } = await startCollector();
  const spans = JSON.parse(readFileSync(join(GOLDEN, 'with-contents.json'), 'utf8')) as object[];
  const body = tracesBody(
    { 'service.name': 'x' },
    spans.map((span) => JSON.stringify(span)),
  );
  expect(await send('traces', body)).toMatchObject({ status: 200, isFinal: false });
  expect(passedOn.map(({ path }) => path)).toEqual(['/v1/traces']);
  const [{ resource, scopeSpans }] = passedOn[0]!.body.resourceSpans;
  expect(resource.attributes).toEqual([{ key: 'service.name', value: { stringValue: 'x' } }]);
  expect(scopeSpans[0].spans).toMatchObject(withoutEmpty(spans));

  const counter = new Counter('platform_runs_total', 'Runs.', ['status']);
  counter.add('completed');
  const histogram = new Histogram('platform_run_duration_seconds', 'Time.');
  histogram.observe(0.2);
  const lines = [...counter.lines(), ...histogram.lines(), ...gauge('platform_sandboxes_max', 'Most.', [{}, 4])];
  const metrics = metricsBody(`${lines.join('\n')}\n`, {}, { startedAt: 1000, now: 2000 });
  expect(await send('metrics', metrics)).toMatchObject({ status: 200, isFinal: false });
  const sent = JSON.parse(metrics).resourceMetrics[0].scopeMetrics[0].metrics;
  expect(passedOn[1]!.body.resourceMetrics[0].scopeMetrics[0].metrics).toMatchObject(withoutEmpty(sent));

  const refused = await send('traces', '{"resourceSpans":"nonsense"}');
  expect(refused).toMatchObject({ status: 400, isFinal: true });
});
