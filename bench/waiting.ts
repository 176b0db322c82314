import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Client, createClient } from '#core/api/client.ts';
import { ask, ms, type Platform, processorMs, ROOT, type Row, startPlatform, startProgram, timed } from './harness.ts';
import { median } from './statistics.ts';

/** Runs that wait all the time. */
const WAITING = 10_000;
/** Runs whose time comes at once. */
const AT_ONCE = 1_000;
const DECISIONS = 30;
const STARTS = 3;
const CONNECTIONS = 50;
const MINUTE_MS = 60_000;
/** So many runs may wait. */
const PLANS = JSON.stringify(
  Object.fromEntries(['free', 'pro', 'team', 'enterprise'].map((plan) => [plan, { waiting_runs: 2 * WAITING }])),
);
/** Pause after a start, during which the platform runs its initial tasks. */
const SETTLING_MS = 10_000;

/** Measures runs that wait for people and times: what they cost while they wait, and how soon they continue. */
export async function benchWaiting(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-waiting-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const llmUrl = `http://127.0.0.1:${llm.port}`;
  const started: Platform[] = [];
  const start = async (name: string): Promise<Platform> => {
    const settings = { PLATFORM_ANTHROPIC_URL: `${llmUrl}/v1`, PLATFORM_PLANS: PLANS };
    const platform = await startPlatform(join(folder, name), settings);
    started.push(platform);
    return platform;
  };
  try {
    let platform = await start('ours');
    const { key } = platform;
    const waiting = await scene(platform, llmUrl);
    const rows = [await benchDecisions(waiting), await benchTimes(waiting)];
    await publish(waiting.client, 'asks', 'claude-bench-ask');
    await begin(waiting, 'asks', WAITING);
    const starts: { ours: number; none: number }[] = [];
    let none: Platform | undefined;
    for (let round = 0; round < STARTS; round++) {
      await platform.stop();
      await none?.stop();
      const ours = await timed(async () => {
        platform = await start('ours');
        await ask({ ...platform, key }, '/health');
      });
      const empty = await timed(async () => {
        none = await start('none');
        await ask(none, '/health');
      });
      starts.push({ ours, none: empty });
    }
    await setTimeout(SETTLING_MS);
    const [ours, beside] = (await Promise.all([platform, none!].map(idleShare))) as [number, number];
    return [...rows, idleRow(ours, beside), startRow(starts)];
  } finally {
    await Promise.all(started.map((each) => each.stop()));
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Scene {
  readonly platform: Platform;
  readonly client: Client;
  readonly workspaceId: string;
  readonly llmUrl: string;
}

async function scene(platform: Platform, llmUrl: string): Promise<Scene> {
  const client = createClient({ baseUrl: platform.url, key: platform.key });
  const workspaceId = (await client.listWorkspaces({})).workspaces[0]!.id;
  const params = { workspace_id: workspaceId };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' } });
  return { platform, client, workspaceId, llmUrl };
}

const publish = (client: Client, name: string, model: string) =>
  client.createAgent({
    body: {
      ...{ name, type: 'agent', description: 'Waits', prompt: 'Wait.', required_secrets: [] },
      ...{ supported_providers: ['anthropic'], default_models: { anthropic: model } },
      loop: { tools: ['ask_human', 'wait'] },
    },
  });

/** Begins runs of an agent, and returns when all of them wait. */
async function begin({ platform, workspaceId }: Scene, agent: string, count: number): Promise<string[]> {
  const headers = {
    authorization: `Bearer ${platform.key}`,
    'content-type': 'application/json',
    prefer: 'respond-async',
  };
  const ids: string[] = [];
  let begun = 0;
  const connection = async (): Promise<void> => {
    while (begun < count) {
      begun += 1;
      const url = `${platform.url}/main/${agent}/v1/run`;
      const answer = await fetch(url, { method: 'POST', headers, body: '{}' });
      const text = await answer.text();
      if (answer.status === 429) {
        begun -= 1;
        await setTimeout(100);
      } else if (answer.status === 202) ids.push((JSON.parse(text) as { run_id: string }).run_id);
      else throw new Error(text);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  const last = ids.at(-1)!;
  for (;;) {
    const { status } = (await ask(platform, `/workspaces/${workspaceId}/runs/${last}`)) as { status: string };
    if (status === 'waiting') return ids;
    if (status !== 'running') throw new Error(`the run ${last} is ${status}`);
    await setTimeout(100);
  }
}

/** Time from the request that decides to the next request to the model. */
async function benchDecisions(waiting: Scene): Promise<Row> {
  const { client, workspaceId, llmUrl } = waiting;
  await publish(client, 'asks-first', 'claude-bench-ask');
  const ids = await begin(waiting, 'asks-first', DECISIONS);
  await setTimeout(1000);
  const times: number[] = [];
  const answers: number[] = [];
  for (const id of ids) {
    await takeAsked(llmUrl);
    const decidedAt = Date.now();
    const params = { workspace_id: workspaceId, approval_id: `${id}.1.1` };
    answers.push(await timed(() => client.decideApproval({ params, body: { decision: 'answer', answer: 'blue' } })));
    let asked: number[] = [];
    while (asked.length === 0) {
      await setTimeout(2);
      asked = await takeAsked(llmUrl);
    }
    times.push(asked[0]! - decidedAt);
  }
  const middle = median(times);
  return {
    what: 'from a decision to the next request to the model',
    ours: `${ms(middle)}, at most ${ms(Math.max(...times))}`,
    beside: `the answer to the decision: ${ms(median(answers))}`,
    result: ms(middle),
    bound: 'at most 300 ms',
    isMet: middle <= 300,
  };
}

/** Runs whose time comes in the same second. */
async function benchTimes(waiting: Scene): Promise<Row> {
  const { client, llmUrl } = waiting;
  const at = Math.ceil(Date.now() / 1000) * 1000 + MINUTE_MS;
  await publish(client, 'waits', `claude-bench-until-${at}`);
  await begin(waiting, 'waits', AT_ONCE);
  if (Date.now() > at) throw new Error(`${AT_ONCE} runs did not begin within a minute`);
  await setTimeout(at - Date.now() - 500);
  await takeAsked(llmUrl);
  const asked: number[] = [];
  while (asked.length < AT_ONCE) {
    if (Date.now() > at + MINUTE_MS) throw new Error(`only ${asked.length} runs continued within a minute`);
    await setTimeout(100);
    asked.push(...(await takeAsked(llmUrl)));
  }
  const lastMs = Math.max(...asked) - at;
  return {
    what: `${AT_ONCE.toLocaleString('en')} waiting runs whose time comes at once`,
    ours: `the first asks the model after ${seconds(Math.min(...asked) - at)}, the last after ${seconds(lastMs)}`,
    beside: 'nothing: the time itself',
    result: seconds(lastMs),
    bound: 'at most 10 s',
    isMet: lastMs <= 10_000,
  };
}

function idleRow(ours: number, none: number): Row {
  const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;
  return {
    what: `an idle minute with ${WAITING.toLocaleString('en')} runs that wait for people`,
    ours: `${percent(ours)} of a core`,
    beside: `with none: ${percent(none)}`,
    result: `${percent(Math.max(0, ours - none))} more`,
    bound: 'under 0.5% more',
    isMet: ours - none < 0.005,
  };
}

function startRow(starts: readonly { readonly ours: number; readonly none: number }[]): Row {
  const ratio = median(starts.map(({ ours, none }) => ours / none));
  return {
    what: 'start with them',
    ours: `first answer after ${seconds(median(starts.map(({ ours }) => ours)))}`,
    beside: `with none: ${seconds(median(starts.map(({ none }) => none)))}`,
    result: `${ratio.toFixed(2)} x`,
    bound: 'at most 1.2 x',
    isMet: ratio <= 1.2,
  };
}

/** Returns when the model was asked since the last call, in epoch milliseconds. */
const takeAsked = async (llmUrl: string): Promise<number[]> => (await (await fetch(llmUrl)).json()) as number[];

const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(2)} s`;

/** CPU use of a platform over a minute, in cores. */
async function idleShare({ process: { pid } }: Platform): Promise<number> {
  const before = processorMs(pid!);
  await setTimeout(MINUTE_MS);
  return (processorMs(pid!) - before) / MINUTE_MS;
}
