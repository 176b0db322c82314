import { setTimeout } from 'node:timers/promises';
import { type Bench, load, type Row, residentBytes } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median, slope } from './statistics.ts';

const CONNECTIONS = 10;
const WARM_UP_MINUTES = 4;
const BODY = '{"name":"Ada"}';

/** Runs prompt calls for minutes at half the maximum rate: does memory keep growing after warm-up? */
export async function benchSoak({ platform, client }: Bench, minutesOfLoad = 10): Promise<Row[]> {
  await publishPrompt(client, 'bench-soak', 'claude-bench');
  const url = `${platform.url}/main/bench-soak/v1/run`;
  const headers = [`Authorization: Bearer ${platform.key}`];
  await load(url, headers, { connections: CONNECTIONS, body: BODY });
  const full = await load(url, headers, { connections: CONNECTIONS, body: BODY });
  const rate = full.requestsPerSecond / 2;

  const under = load(url, headers, { connections: CONNECTIONS, seconds: minutesOfLoad * 60, rate, body: BODY });
  const minutes: number[] = [];
  for (let minute = 0; minute < minutesOfLoad; minute++) {
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
      what: `${minutesOfLoad} minutes of prompt calls at half load, the last ${warm.length} of them`,
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
