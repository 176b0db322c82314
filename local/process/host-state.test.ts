import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { delayMs, LocalState } from './host-state.ts';
import { Counter, gauge, Histogram } from './metrics.ts';

test('metrics have the text format, with what the process did', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-state-'));
  writeFileSync(join(folder, 'platform.sqlite'), 'twelve bytes');
  const sandbox = {
    load: { running: 2, waiting: 1, max: 8, oldestMs: 1500 },
    status: async () => ({ kind: 'unshare' as const, interpreters: {}, problem: 'x' }),
  };
  const state = new LocalState({ sandbox, folder });
  try {
    state.countRequest('GET', 200, 4);
    state.countRequest('GET', 200, 30);
    state.countRequest('BREW', 405, 1);
    state.countRun({ status: 'failed', source: 'schedule', durationMs: 700 });
    state.noteOverdueRuns(2);
    const text = await state.metrics();
    for (const line of text.trimEnd().split('\n')) {
      expect(line).toMatch(/^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?[\d.e+]+)$/);
    }
    for (const line of [
      'platform_requests_total{method="GET",status="200"} 2',
      'platform_requests_total{method="other",status="405"} 1',
      'platform_request_duration_seconds_bucket{le="0.005"} 2',
      'platform_request_duration_seconds_bucket{le="0.05"} 3',
      'platform_request_duration_seconds_bucket{le="+Inf"} 3',
      'platform_request_duration_seconds_count 3',
      'platform_runs_total{status="failed",source="schedule"} 1',
      'platform_run_duration_seconds_sum 0.7',
      'platform_runs_overdue 2',
      'platform_sandboxes{state="waiting"} 1',
      'platform_queue_age_seconds 1.5',
      'platform_database_bytes 12',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    expect(await state.parts()).toEqual([{ name: 'sandbox', problem: 'x' }]);
    expect(await state.system()).toMatchObject({ sandbox: { queue_age_ms: 1500 }, disk: { database_bytes: 12 } });
  } finally {
    state.close();
    rmSync(folder, { recursive: true });
  }
});

test('values of labels are escaped, and a histogram begins empty', () => {
  expect(gauge('a', 'b', [{ c: '"\\\n' }, 1]).at(-1)).toBe('a{c="\\"\\\\\\n"} 1');
  const histogram = new Histogram('a', 'b');
  expect(histogram.lines()).toContain('a_count 0');
  histogram.observe(0.02);
  histogram.observe(3);
  expect(histogram.lines().slice(2)).toEqual(
    expect.arrayContaining([
      'a_bucket{le="0.01"} 0',
      'a_bucket{le="0.025"} 1',
      'a_bucket{le="5"} 2',
      'a_bucket{le="+Inf"} 2',
    ]),
  );
  const counter = new Counter('a', 'b', ['c', 'd']);
  expect(counter.lines()).toEqual(['# HELP a b', '# TYPE a counter']);
  counter.add('x"', 1);
  counter.add('x"', 1);
  counter.add('y', 1);
  expect(counter.lines().slice(2)).toEqual(['a{c="x\\"",d="1"} 2', 'a{c="y",d="1"} 1']);
});

test.each([
  [Number.NaN, 0],
  [0, 0],
  [19_900_000, 0],
  [20_350_000, 0.35],
  [170_000_000, 150],
])('%d ns between two looks at the event loop are a delay of %d ms', (nanoseconds, ms) => {
  expect(delayMs(nanoseconds)).toBe(ms);
});
