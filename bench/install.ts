import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packPlatform, startFromPackage } from '#test/helpers/package.ts';
import { ms, ROUNDS, type Row, timed } from './harness.ts';
import { median } from './statistics.ts';

const MAX_START_S = 60;
const MAX_INIT_S = 20;
const MAX_HELP_MS = 100;

const seconds = (value: number): string => `${(value / 1000).toFixed(1)} s`;

/**
 * Measures what a newcomer waits for: from an empty folder to the answer of an example, with the package and no cache
 * of npm; from `platform init` to the answer of one's own agent; and the help of the command line.
 */
export async function benchInstall(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-install-'));
  try {
    const archive = packPlatform(folder);
    // The same downloads, by npm alone.
    const alone = join(folder, 'alone');
    mkdirSync(alone);
    const bare = await timed(() =>
      promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', archive], {
        cwd: alone,
        env: { ...process.env, npm_config_cache: join(folder, 'cache-alone') },
      }),
    );
    const before = performance.now();
    const { url, key, example, installed, platform, stop } = await startFromPackage(archive, folder);
    try {
      const answer = await fetch(`${url}/main/${example.agent}/latest/run`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: readFileSync(example.input),
      });
      const start = performance.now() - before;
      if (!answer.ok) throw new Error(`${example.agent} answered ${answer.status}: ${await answer.text()}`);

      const commands = [
        ['init', 'hello', '--template', 'hello-node'],
        ['publish', 'hello'],
        ['run', 'hello', 'hello/sample-input.json'],
      ];
      const init = await timed(async () => {
        for (const command of commands) platform(...command);
      });

      const times = { ours: [] as number[], bare: [] as number[] };
      const cli = join(installed, 'agent-platform/platform.js');
      const node = (...args: string[]) => timed(() => promisify(execFile)(process.execPath, args));
      // The first round is warm-up.
      for (let round = -1; round < 4 * ROUNDS; round++) {
        const [ours, bareNode] = [await node(cli, '--help'), await node('--eval', '0')];
        if (round >= 0) {
          times.ours.push(ours);
          times.bare.push(bareNode);
        }
      }
      const [help, bareNode] = [median(times.ours), median(times.bare)];
      return [
        {
          what: 'from an empty folder to the answer of an example, from the package without a cache of npm',
          ours: seconds(start),
          beside: `npm install of the package alone ${seconds(bare)}`,
          result: seconds(start),
          bound: `at most ${MAX_START_S} s`,
          isMet: start <= MAX_START_S * 1000,
        },
        {
          what: `from platform init to the answer of one's own agent, in ${commands.length} commands`,
          ours: seconds(init),
          beside: '-',
          result: seconds(init),
          bound: `at most ${MAX_INIT_S} s and three commands`,
          isMet: init <= MAX_INIT_S * 1000 && commands.length <= 3,
        },
        {
          what: 'platform --help',
          ours: ms(help),
          beside: `node --eval 0: ${ms(bareNode)}`,
          result: ms(help),
          bound: `at most ${MAX_HELP_MS} ms`,
          isMet: help <= MAX_HELP_MS,
        },
      ];
    } finally {
      await stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
