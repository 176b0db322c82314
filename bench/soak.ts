import { setTimeout } from 'node:timers/promises';
import { type Bench, load, type Row, residentBytes } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const CONNECTIONS = 10;
const MINUTES = 10;
const WARM_UP_MINUTES = 4;
const BODY = '{"name":"Ada"}';

/** Ten minutes of prompt calls at half the maximum rate: does memory keep growing after warm-up? */
export async function benchSoak({ platform, client }: Bench): Promise<Row[]> {
  await publishPrompt(client, 'bench-soak', 'claude-bench');
  const url = `${platform.url}/main/bench-soak/v1/run`;
  const headers = [`Authorization: Bearer ${platform.key}`];
  await load(url, headers, { connections: CONNECTIONS, body: BODY });
  const full = await load(url, headers, { connections: CONNECTIONS, body: BODY });
  const rate = full.requestsPerSecond / 2;

  const under = load(url, headers, { connections: CONNECTIONS, seconds: MINUTES * 60, rate, body: BODY });
  const minutes: number[] = [];
  for (let minute = 0; minute < MINUTES; minute++) {
    const samples: number[] = [];
    while (samples.length < 12) {
      await setTimeout(5_000);
      samples.push(residentBytes(platform.process.pid!) / 1024 ** 2);
    }
    minutes.push(median(samples));
    process.stderr.write(`soak, minute ${minute + 1}: ${median(samples).toFixed(0)} MB\n`);
  }
  const result = await under;
  if (result.failed > 0) throw new Error(`${result.failed} calls failed`);
  const warm = minutes.slice(WARM_UP_MINUTES);
  const growth = slope(warm);
  return [
    {
      what: `ten minutes of prompt calls at half load, the last ${warm.length} of them`,
      ours: `${Math.round(result.requestsPerSecond)}/s: ${warm.map((megabytes) => megabytes.toFixed(0)).join(', ')} MB`,
      beside: '-',
      result: `${growth.toFixed(2)} MB a minute`,
      bound: 'under 1 MB a minute',
      isMet: growth < 1,
      // A slope near zero has no meaningful percentage.
      tolerance: 10,
    },
  ];
}

/** Slope of the least-squares line through equidistant values. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const [up, across] = values.reduce(
    ([a, b], value, x) => [a + (x - middle) * (value - mean), b + (x - middle) ** 2],
    [0, 0],
  );
  return up / across;
}
