import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { PEERS, startProgram } from './harness.ts';

/** System whose measurement alternates with the others. */
export interface Side {
  readonly name: string;
  readonly url: string;
  readonly headers: readonly string[];
}

export interface Peers {
  /** Restate and Mastra, each with one LLM call. */
  readonly sides: readonly Side[];
  /** Mastra's agent with a tool. */
  readonly mastraTools?: Side;
  /** The tool itself. */
  readonly mastraTool?: Side;
  stop(): void;
}

/** Starts the peers that `npm run bench:peers` installed; returns none if it never ran. */
export async function startPeers(llmUrl: string, folder: string): Promise<Peers> {
  if (!existsSync(join(PEERS, 'node_modules'))) {
    process.stderr.write('the peers are not installed: npm run bench:peers\n');
    return { sides: [], stop() {} };
  }
  const mastra = await startProgram(join(PEERS, 'mastra.mjs'), [llmUrl]);
  const service = spawn(process.execPath, [join(PEERS, 'restate.mjs'), llmUrl, '9480'], { stdio: 'ignore' });
  const server = spawn(
    join(PEERS, 'node_modules/.bin/restate-server'),
    ['--base-dir', join(folder, 'restate'), '--log-filter', 'error'],
    // The npm package is a script that starts the server, so the process group ends both.
    { stdio: 'ignore', detached: true },
  );
  await untilOk('http://127.0.0.1:9070/deployments', { uri: 'http://127.0.0.1:9480' });
  await untilOk('http://127.0.0.1:8080/greeter/greet', { name: 'Ada' });
  const mastraUrl = `http://127.0.0.1:${mastra.port}`;
  return {
    sides: [
      { name: 'Restate', url: 'http://127.0.0.1:8080/greeter/greet', headers: [] },
      { name: 'Mastra', url: `${mastraUrl}/`, headers: [] },
    ],
    mastraTools: { name: 'Mastra', url: `${mastraUrl}/tools`, headers: [] },
    mastraTool: { name: 'Mastra', url: `${mastraUrl}/tool`, headers: [] },
    stop() {
      mastra.process.kill('SIGKILL');
      service.kill('SIGKILL');
      process.kill(-server.pid!, 'SIGKILL');
    },
  };
}

async function untilOk(url: string, json: object): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(json),
    }).catch(() => undefined);
    if (response?.ok) return;
    if (attempt > 100) throw new Error(`${url} does not answer: ${await response?.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
