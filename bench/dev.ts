import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { type Bench, ms, ROOT, type Row, timed } from './harness.ts';
import { median } from './statistics.ts';

const SAVES = 15;
const AT_MOST_MS = 300;
/** Debounce interval of `platform dev`. */
const DEBOUNCE_MS = 100;

/**
 * Measures the time from a save to the answer of the new code: `platform dev` with a call of `dev`, alternating with a
 * bare watcher of the same debounce interval that starts the program without a platform or sandbox.
 */
export async function benchDev({ platform, client, folder }: Bench): Promise<Row[]> {
  const agent = join(folder, 'saved');
  mkdirSync(agent);
  const save = (answer: string) => writeFileSync(join(agent, 'run.sh'), `echo '{"said":"${answer}"}'\n`);
  const manifest = {
    name: 'saved',
    type: 'tool',
    description: 'x',
    required_secrets: [],
    supported_providers: ['any'],
  };
  writeFileSync(join(agent, 'agent.json'), JSON.stringify({ ...manifest, runtime: { command: 'sh run.sh' } }));
  save('first');
  const dev = spawn(process.execPath, [join(ROOT, 'cli/main.ts'), 'dev', agent], {
    env: { PATH: process.env.PATH, PLATFORM_API_URL: platform.url, PLATFORM_API_KEY: platform.key },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: dev.stdout });
  const published = async () => {
    for (;;) {
      const [line] = await once(lines, 'line');
      if (JSON.parse(line).event === 'published') return;
    }
  };
  const params = { org: 'main', agent: 'saved', version: 'dev', endpoint: 'run' };
  const check = (said: unknown, answer: string) => {
    if (said !== answer) throw new Error(`the code before answered: ${said}`);
  };
  const times = { dev: [] as number[], bare: [] as number[] };
  try {
    await published();
    for (let round = -2; round < SAVES; round++) {
      const ours = await timed(async () => {
        const isPublished = published();
        save(`dev${round}`);
        await isPublished;
        const { data } = (await client.callAgent({ params, body: {} })) as unknown as { data: { said: string } };
        check(data.said, `dev${round}`);
      });
      const isPublished = published();
      const bare = await timed(async () => {
        const changed = new Promise<void>((resolve) => {
          const watcher = watch(agent, () => {
            watcher.close();
            setTimeout(resolve, DEBOUNCE_MS);
          });
        });
        save(`bare${round}`);
        await changed;
        const { stdout } = await promisify(execFile)('sh', ['run.sh'], { cwd: agent });
        check(JSON.parse(stdout).said, `bare${round}`);
      });
      // `platform dev` has also noticed this save.
      await isPublished;
      // The first rounds are warm-up.
      if (round >= 0) {
        times.dev.push(ours);
        times.bare.push(bare);
      }
    }
  } finally {
    dev.kill('SIGINT');
    await once(dev, 'exit');
  }
  const [ours, bare] = [median(times.dev), median(times.bare)];
  return [
    {
      what: 'platform dev: from a save to the answer of the new code, a program without dependencies',
      ours: ms(ours),
      beside: `a watcher that starts the program itself ${ms(bare)}`,
      result: ms(ours),
      bound: `below ${AT_MOST_MS} ms, of which ${DEBOUNCE_MS} ms are waiting for further changes`,
      isMet: ours < AT_MOST_MS,
    },
  ];
}
