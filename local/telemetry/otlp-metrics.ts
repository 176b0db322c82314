import { type Attributes, keyValues } from '#core/runs/telemetry/otlp.ts';

const CUMULATIVE = 2;
const SAMPLE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

interface Sample {
  readonly name: string;
  readonly labels: Record<string, string>;
  readonly value: number;
}

/**
 * Returns metrics in the text format of Prometheus, as `metrics.ts` writes it, as the body of a request to `/v1/metrics`. So
 * both ways out have the same metrics, which are declared once.
 *
 * @param startedAt When the counters began, in epoch milliseconds.
 */
export function metricsBody(
  text: string,
  resource: Attributes,
  { startedAt, now }: { startedAt: number; now: number },
): string {
  const metrics = text
    .split(/^# HELP /m)
    .slice(1)
    .map((block) => {
      const [help = '', type = '', ...lines] = block.trimEnd().split('\n');
      const name = help.slice(0, help.indexOf(' '));
      const kind = type.slice(type.lastIndexOf(' ') + 1);
      return {
        name,
        description: help.slice(name.length + 1),
        ...pointsOf(name, kind, lines.map(sampleOf), times(startedAt, now)),
      };
    });
  return JSON.stringify({
    resourceMetrics: [
      { resource: { attributes: keyValues(resource) }, scopeMetrics: [{ scope: { name: 'agent-platform' }, metrics }] },
    ],
  });
}

const times = (startedAt: number, now: number) => ({
  startTimeUnixNano: `${Math.round(startedAt)}000000`,
  timeUnixNano: `${Math.round(now)}000000`,
});
type Times = ReturnType<typeof times>;

function sampleOf(line: string): Sample {
  const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
  const pairs = [...labels.matchAll(LABEL)].map(([, label, text]) => [label!, text!.replace(/\\(.)/g, '$1')]);
  return { name, labels: Object.fromEntries(pairs), value: Number(value) };
}

function pointsOf(name: string, kind: string, samples: readonly Sample[], time: Times) {
  const dataPoints = samples.map(({ labels, value }) => ({ attributes: keyValues(labels), ...time, asDouble: value }));
  if (kind === 'counter') return { sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
  if (kind === 'gauge') return { gauge: { dataPoints } };
  const suffixed = (suffix: string): number => samples.find((sample) => sample.name === name + suffix)?.value ?? 0;
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const point = {
    ...time,
    count: String(suffixed('_count')),
    sum: suffixed('_sum'),
    // Prometheus counts up to a bound, OTLP between two of them.
    bucketCounts: buckets.map(({ value }, index) => String(value - (buckets[index - 1]?.value ?? 0))),
    explicitBounds: buckets.slice(0, -1).map(({ labels }) => Number(labels.le)),
  };
  return { histogram: { aggregationTemporality: CUMULATIVE, dataPoints: [point] } };
}
