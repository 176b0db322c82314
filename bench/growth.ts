import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ask, ms, type Platform, type Row, startPlatform, timed } from './harness.ts';
import { type MakeOne, prepareData } from './prepared-data.ts';
import { median } from './statistics.ts';

/** Measured requests of each path, after one warm-up request. */
const TIMES = 40;

interface Growth {
  /** Resource whose count differs: `tasks`. */
  readonly what: string;
  readonly few: number;
  readonly many: number;
  readonly makeOne: MakeOne;
  /** Paths. */
  readonly queries: readonly string[];
  /** Maximum ratio of the times with many and with few items. */
  readonly maxRatio: number;
}

/** Alternates the same HTTP requests between a platform with few items and one with many. */
export async function benchGrowth({ what, few, many, makeOne, queries, maxRatio }: Growth): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-growth-'));
  const platforms: Platform[] = [];
  try {
    for (const count of [few, many]) {
      const dataFolder = join(folder, String(count));
      const key = await prepareData(dataFolder, count, makeOne);
      platforms.push({ ...(await startPlatform(dataFolder)), key });
    }
    const rows: Row[] = [];
    for (const query of queries) {
      const times: [number[], number[]] = [[], []];
      for (let time = -1; time < TIMES; time++) {
        for (const [index, platform] of platforms.entries()) {
          const took = await timed(() => ask(platform, query));
          if (time >= 0) times[index]!.push(took);
        }
      }
      const [beside, ours] = times.map(median) as [number, number];
      const ratio = ours / beside;
      rows.push({
        what: `GET ${query}, with ${many.toLocaleString('en')} ${what}`,
        ours: ms(ours),
        beside: `with ${few.toLocaleString('en')}: ${ms(beside)}`,
        result: `${ratio.toFixed(2)} x`,
        bound: `at most ${maxRatio} x`,
        isMet: ratio <= maxRatio,
      });
    }
    return rows;
  } finally {
    for (const platform of platforms) await platform.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
