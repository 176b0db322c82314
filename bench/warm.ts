import type { Client } from '#core/api/client.ts';
import { type Bench, ms, publishProgram, type Row, timed } from './harness.ts';
import { benchBeside, type Side, startPeers } from './peers.ts';
import { median } from './statistics.ts';

const REUSE = { reuse: 'process' };
const INSTALL_LIMIT_MS = 300_000;

const WITH_PANDAS = `import pandas
from agent_platform import serve

def handle(given):
    return {"mean": float(pandas.Series(given["values"]).mean())}

serve(handle)
`;
const IN_PYTHON = `from agent_platform import serve

serve(lambda given: {"hello": given["name"]})
`;
const IN_NODE = `import { serve } from 'agent-platform-sdk';

await serve(({ name }) => ({ hello: name }));
`;

/** Measures programs that stay: what the second call of a slow start costs, and how many calls a small one answers. */
export async function benchWarm({ platform, client, llmUrl, folder }: Bench): Promise<Row[]> {
  const sideOf = (name: string): Side => ({
    name,
    url: `${platform.url}/main/${name}/v1/run`,
    headers: [`Authorization: Bearer ${platform.key}`],
  });
  const rows = [await benchPandas(client, sideOf('bench-warm-pandas'))];
  await publishProgram(client, 'bench-warm-python', { 'main.py': IN_PYTHON }, REUSE);
  const inNode = { ...REUSE, runtime: { command: 'node main.mjs' } };
  await publishProgram(client, 'bench-warm-node', { 'main.mjs': IN_NODE }, inNode);
  const peers = await startPeers(llmUrl, folder);
  try {
    if (peers.mastraTool === undefined) return rows;
    for (const [name, language] of [
      ['bench-warm-python', 'Python'],
      ['bench-warm-node', 'Node.js'],
    ] as const) {
      const row = {
        what: `a trivial warm handler in ${language}, sandboxed, 4 at once`,
        beside: 'Mastra, a tool that is a function of its server, called without a model',
        reach: 0.5,
      };
      rows.push(await benchBeside(sideOf(name), peers.mastraTool, row));
    }
    return rows;
  } finally {
    peers.stop();
  }
}

async function benchPandas(client: Client, { url, headers }: Side): Promise<Row> {
  const files = { 'main.py': WITH_PANDAS, 'requirements.txt': 'pandas\n' };
  const agent = await publishProgram(client, 'bench-warm-pandas', files, REUSE);
  const until = Date.now() + INSTALL_LIMIT_MS;
  while (!(await client.getAgent({ params: { id: agent.id } })).runnable) {
    if (Date.now() > until) throw new Error('pandas was not installed in time');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  const call = async (): Promise<void> => {
    const [name, value] = headers[0]!.split(': ') as [string, string];
    const request = { method: 'POST', headers: { [name]: value, 'content-type': 'application/json' } };
    const answer = await (await fetch(url, { ...request, body: '{"values":[1,2,3]}' })).text();
    if (!answer.includes('"mean":2')) throw new Error(answer);
  };
  const first = await timed(call);
  const later: number[] = [];
  for (let count = 0; count < 100; count++) later.push(await timed(call));
  return {
    what: 'second call of a Python agent that imports pandas, its program stays',
    ours: ms(median(later)),
    beside: `the first call: ${ms(first)}`,
    result: `${ms(median(later))}, ${(median(later) / first).toFixed(3)} of it`,
    bound: 'at most 5 ms',
    isMet: median(later) <= 5,
  };
}
