import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { encodeSpan, tracesBody } from '#core/runs/telemetry/otlp.ts';
import { Counter, gauge, Histogram } from '#local/process/metrics.ts';
import { metricsBody } from '#local/telemetry/otlp-metrics.ts';

/** What the platform sends to collectors, read by OpenTelemetry's own Protobuf definitions from PyPI. */
const CLIENTS = join(import.meta.dirname, 'clients');
const FOLDER = join(CLIENTS, 'node_modules/.otlp');
const GOLDEN = join(import.meta.dirname, '../../core/runs/telemetry/golden');
const PACKAGES = ['opentelemetry-proto==1.45.2'];
const run = promisify(execFile);
const python = join(FOLDER, 'bin/python');

beforeAll(async () => {
  const installed = join(FOLDER, '.installed');
  if (existsSync(installed)) return;
  await run('python3', ['-m', 'venv', FOLDER]);
  await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES]);
  writeFileSync(installed, PACKAGES.join('\n'));
}, 300_000);

/** Returns the requests as the definitions read them. Throws if one has a member that they do not know. */
const strictly = (...bodies: readonly string[]) =>
  execFileSync(python, [join(CLIENTS, 'otlp_strict.py')], { input: bodies.join('\n'), encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test.each(['with-contents', 'without-contents'])('spans of the golden file %s', (name) => {
  const spans = JSON.parse(readFileSync(join(GOLDEN, `${name}.json`), 'utf8')) as { name: string }[];
  const body = tracesBody(
    { 'service.name': 'x' },
    spans.map((span) => JSON.stringify(span)),
  );
  const [read] = strictly(body);
  const [{ resource, scopeSpans }] = read.resourceSpans;
  expect(resource.attributes).toEqual([{ key: 'service.name', value: { stringValue: 'x' } }]);
  expect(scopeSpans[0].spans.map((span: { name: string }) => span.name)).toEqual(spans.map((span) => span.name));
});

test('values of each type, and text that is no text', () => {
  const attributes = { text: 'a\ud800b', whole: 2 ** 40, part: 0.5, yes: true, none: undefined, never: Number.NaN };
  const times = { startedAt: 1_700_000_000_000.25, endedAt: 1_600_000_000_000 };
  const ids = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) };
  const span = encodeSpan({ ...ids, ...times, name: 'x', kind: 'client', attributes, failure: 'failed' });
  const [read] = strictly(tracesBody({}, [JSON.stringify(span)]));
  expect(read.resourceSpans[0].scopeSpans[0].spans[0]).toMatchObject({
    ...{ kind: 'SPAN_KIND_CLIENT', status: { code: 'STATUS_CODE_ERROR', message: 'failed' } },
    attributes: [
      { key: 'text', value: { stringValue: 'a\ufffdb' } },
      { key: 'whole', value: { intValue: String(2 ** 40) } },
      { key: 'part', value: { doubleValue: 0.5 } },
      { key: 'yes', value: { boolValue: true } },
    ],
  });
});

test('metrics', () => {
  const counter = new Counter('platform_runs_total', 'Runs.', ['status']);
  counter.add('completed');
  const histogram = new Histogram('platform_run_duration_seconds', 'Time.');
  histogram.observe(0.2);
  const lines = [...counter.lines(), ...histogram.lines(), ...gauge('platform_sandboxes_max', 'Most.', [{}, 4])];
  const [read] = strictly(metricsBody(`${lines.join('\n')}\n`, {}, { startedAt: 1000, now: 2000 }));
  const { metrics } = read.resourceMetrics[0].scopeMetrics[0];
  expect(metrics.map((metric: object) => Object.keys(metric).at(-1))).toEqual(['sum', 'histogram', 'gauge']);
});
