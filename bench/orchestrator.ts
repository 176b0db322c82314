import { type Bench, ms, publishProgram, type Row, timed } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const CALLS = 10;
const PROMPT = 'bench-slow-prompt';
const PROGRAM = 'bench-slow-program';

/** Waits half a second, like the model of the prompt agent. */
const SLOW = `
import json, time
time.sleep(0.5)
print(json.dumps({"greeting": "Hello, Ada!"}))
`;
const CALL_ALL = `
import json
from agent_platform import AgentClient

agents = [f"main/{name}@v1" for name in ["${PROMPT}", "${PROGRAM}"] * 2]
print(json.dumps({"answers": AgentClient().call_all((agent, {"name": "Ada"}) for agent in agents)}))
`;
const WITH_ASYNCIO = `
import asyncio, json
from agent_platform import AgentClient

async def main():
    client = AgentClient()
    calls = [client.call(f"main/{name}@v1", {"name": "Ada"}) for name in ["${PROMPT}", "${PROGRAM}"] * 2]
    print(json.dumps({"answers": await asyncio.gather(*calls)}))

asyncio.run(main())
`;

/** Compares an agent with four concurrent sub-calls (two prompts, two programs) with the slowest sub-call alone. */
export async function benchOrchestrator({ platform, client }: Bench): Promise<Row[]> {
  await publishPrompt(client, PROMPT, 'claude-bench-500');
  await publishProgram(client, PROGRAM, SLOW);
  const manifest = {
    manifest_version: 1,
    dependencies: [PROMPT, PROGRAM].map((name) => ({ id: `main/${name}`, version: 'v1' })),
    max_hops: 2,
    timeout_ms: 60_000,
    per_call_downstream_cap: 10,
  };
  await publishProgram(client, 'bench-orchestrator', CALL_ALL, { manifest });
  await publishProgram(client, 'bench-asyncio', WITH_ASYNCIO, { manifest });
  const call = async (name: string, greetings: number): Promise<void> => {
    const response = await fetch(`${platform.url}/main/${name}/v1/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json' },
      body: '{"name":"Ada"}',
    });
    const answer = await response.text();
    if (answer.split('Hello, Ada!').length - 1 !== greetings) throw new Error(answer);
  };
  const times = { whole: [] as number[], asyncio: [] as number[], prompt: [] as number[], program: [] as number[] };
  for (let n = -1; n < CALLS; n++) {
    const whole = await timed(() => call('bench-orchestrator', 4));
    const asyncio = await timed(() => call('bench-asyncio', 4));
    const prompt = await timed(() => call(PROMPT, 1));
    const program = await timed(() => call(PROGRAM, 1));
    if (n < 0) continue;
    times.whole.push(whole);
    times.asyncio.push(asyncio);
    times.prompt.push(prompt);
    times.program.push(program);
  }
  const slowest = Math.max(median(times.prompt), median(times.program));
  const ratio = median(times.whole) / slowest;
  return [
    {
      what: 'orchestrator with 4 sub-calls at once, two prompts and two programs of half a second',
      ours: `${ms(median(times.whole))}; ${ms(median(times.asyncio))} if it imports asyncio`,
      beside: `the slowest of them alone: ${ms(slowest)}`,
      result: `${ratio.toFixed(2)} x`,
      bound: 'at most 1.25 x',
      isMet: ratio <= 1.25,
    },
  ];
}
