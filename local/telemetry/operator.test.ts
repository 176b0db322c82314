import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { noteForExport, OPERATOR_PARTITION } from '#core/runs/telemetry/backlog.ts';
import { pairsOf } from '#core/runs/telemetry/operator.ts';
import { sendTelemetry } from '#core/runs/telemetry/send.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { parseLocalConfig } from '../config.ts';
import { Counter, gauge, Histogram } from '../process/metrics.ts';
import { operatorTelemetryOf } from './operator.ts';
import { metricsBody } from './otlp-metrics.ts';
import { pushMetrics } from './push-metrics.ts';

const TRACE = { spanId: 'b7ad6b7169203331', sampled: true };
const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const settings = (more: Record<string, string> = {}) =>
  parseLocalConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318/', ...more });

test('nothing is sent without an endpoint, or if it is disabled', () => {
  expect(operatorTelemetryOf(parseLocalConfig({}))).toBeUndefined();
  expect(operatorTelemetryOf(settings({ OTEL_SDK_DISABLED: 'true' }))).toBeUndefined();
  expect(operatorTelemetryOf(settings())).toMatchObject({
    url: 'http://127.0.0.1:4318/v1/traces',
    resource: { 'service.name': 'agent-platform' },
  });
});

test('headers and attributes are read as the SDKs read them, and errors show no value', () => {
  expect(pairsOf('X', ' a=b , c=d%20e,,f=g=h')).toEqual({ a: 'b', c: 'd e', f: 'g=h' });
  expect(() => pairsOf('OTEL_EXPORTER_OTLP_HEADERS', 'made-up-key')).toThrow(/^OTEL_EXPORTER_OTLP_HEADERS: must be/);
  const { resource } = operatorTelemetryOf(
    settings({ OTEL_SERVICE_NAME: 'agents', OTEL_RESOURCE_ATTRIBUTES: 'service.name=x,env=prod' }),
  )!;
  expect(resource).toMatchObject({ 'service.name': 'agents', env: 'prod' });
});

test.each([
  ['always_on', '0', [true, true, true]],
  ['always_off', '1', [false, false, false]],
  ['traceidratio', '0.5', [false, true, true]],
  ['traceidratio', '0', [false, false, false]],
  ['parentbased_always_on', '1', [true, true, false]],
  ['parentbased_traceidratio', '0.5', [false, true, false]],
  ['parentbased_always_off', '1', [false, false, false]],
])('the sampler %s with %s', (sampler, ratio, expected) => {
  const operator = operatorTelemetryOf(settings({ OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio }))!;
  const [low, high] = [`${'a'.repeat(18)}${'0'.repeat(14)}`, `${'a'.repeat(18)}${'f'.repeat(14)}`];
  const unsampledParent = operator.isSampled({ ...TRACE, traceId: high, sampled: false }, true);
  expect([
    operator.isSampled({ ...TRACE, traceId: low }, false),
    operator.isSampled({ ...TRACE, traceId: high }, false),
    unsampledParent,
  ]).toEqual(expected);
});

async function startCollector() {
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into every part of it.
  const received: { path: string; body: any; headers: Record<string, unknown> }[] = [];
  const server = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    received.push({ path: request.url!, body: JSON.parse(text), headers: request.headers });
    response.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test('the operator gets the runs of all workspaces, at a private address', async () => {
  const { received, url } = await startCollector();
  const headers = 'x-key=made-up';
  const operatorTelemetry = operatorTelemetryOf(
    parseLocalConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_HEADERS: headers }),
  );
  const deps = { ...memoryDeps(), operatorTelemetry };
  const digits = 'aaaaaaaabbbb4ccc8dddeeeeeeeeeeee';
  const head = {
    ...{ pk: `WS#${WORKSPACE}#RUN#a`, sk: digits, agent_org: 'acme', agent_name: 'probe', status: 'completed' },
    ...{ duration_ms: 5, gsi2sk: '2035-06-01T12:00:00.000Z', trigger_source: 'api', agent_version: 'v1', deadline: 1 },
    ...{ body_in: 'head', body: { input: 'secret question', output: null, stdout: '', stderr: '', trace: [] } },
  } as const;
  await deps.runs.put(head);
  await noteForExport(deps, 'local', [{ sequence: '1', item: head }]);
  await noteForExport(memoryDeps(), 'local', [{ sequence: '1', item: head }]);
  await sendTelemetry(deps);
  expect(received).toMatchObject([{ path: '/v1/traces', headers: { 'x-key': 'made-up' } }]);
  const { resource, scopeSpans } = received[0]!.body.resourceSpans[0];
  expect(JSON.stringify(resource)).toContain('agent-platform');
  expect(scopeSpans[0].spans).toMatchObject([{ name: 'invoke_agent acme/probe', traceId: digits }]);
  expect(JSON.stringify(received)).not.toContain('secret question');
  expect((await deps.runs.query({ pk: OPERATOR_PARTITION })).items).toEqual([]);
});

test('metrics are the same by OTLP as for Prometheus', async () => {
  const counter = new Counter('platform_runs_total', 'Finished runs.', ['status', 'source']);
  counter.add('completed', 'a"b\\c');
  counter.add('completed', 'a"b\\c');
  const histogram = new Histogram('platform_run_duration_seconds', 'Time.');
  for (const seconds of [0.001, 0.3, 1000]) histogram.observe(seconds);
  const lines = [
    ...counter.lines(),
    ...histogram.lines(),
    ...gauge('platform_sandboxes', 'In use.', [{ state: 'running' }, 3]),
  ];
  const body = JSON.parse(
    metricsBody(`${lines.join('\n')}\n`, { 'service.name': 'x' }, { startedAt: 1000, now: 2000 }),
  );
  const [runs, times, sandboxes] = body.resourceMetrics[0].scopeMetrics[0].metrics;
  expect(runs).toMatchObject({
    name: 'platform_runs_total',
    description: 'Finished runs.',
    sum: { isMonotonic: true, aggregationTemporality: 2, dataPoints: [{ asDouble: 2, timeUnixNano: '2000000000' }] },
  });
  expect(runs.sum.dataPoints[0].attributes[1]).toEqual({ key: 'source', value: { stringValue: 'a"b\\c' } });
  const [point] = times.histogram.dataPoints;
  expect(point).toMatchObject({ count: '3', sum: 1000.301, startTimeUnixNano: '1000000000' });
  expect(point.bucketCounts).toHaveLength(point.explicitBounds.length + 1);
  expect([point.bucketCounts[0], point.bucketCounts[6], point.bucketCounts.at(-1)]).toEqual(['1', '1', '1']);
  expect(sandboxes.gauge.dataPoints).toMatchObject([{ asDouble: 3 }]);
});

test('metrics are posted, and a collector that is away is only logged', async () => {
  const { received, url } = await startCollector();
  const deps = { ...memoryDeps(), hostState: { metrics: async () => '# HELP a b\n# TYPE a gauge\na 1\n' } };
  await pushMetrics(deps, operatorTelemetryOf(parseLocalConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: url }))!, 0);
  expect(received.map(({ path }) => path)).toEqual(['/v1/metrics']);
  await pushMetrics(
    deps,
    operatorTelemetryOf(parseLocalConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }))!,
    0,
  );
  expect(deps.lines).toMatchObject([{ level: 'warn', message: 'metrics not sent' }]);
});
