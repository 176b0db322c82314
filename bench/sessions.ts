import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, createClient } from '#core/api/client.ts';
import models from '#core/models/models.json' with { type: 'json' };
import type { ModelFacts } from '#core/ports/model-table.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { type Bench, ms, ROUNDS, type Row, startPlatform, timed, withPlatform } from './harness.ts';
import { median } from './statistics.ts';

/** Messages of a session before it is measured, and in a round. */
const EARLIER = 10;
const IN_A_ROUND = 40;
const MESSAGES = 200;
/** What a person writes, in about 60 tokens. */
const QUESTION =
  'What did we decide about the delivery of the ovens, and who tells the bakery in the old town? '.repeat(3);
const PROMPT = 'You are the assistant of a bakery. Answer in one sentence.';

/** Measures messages of sessions: their time beside a call without one, and the price of a late one beside one without a cache. */
export const benchSessions = async (): Promise<Row[]> => [await withPlatform(timeRow), await priceRow()];

const publish = (client: Client, name: string) =>
  client.createAgent({
    body: { name, type: 'prompt', description: 'Talks', prompt: PROMPT, supported_providers: ['anthropic'] },
  });

async function openSession(client: Client, agent: string) {
  const params = { workspace_id: (await client.getOrg({})).id };
  const { id } = await client.openSession({ params, body: { agent: `main/${agent}` } });
  return { ...params, session_id: id };
}

async function timeRow({ client }: Bench): Promise<Row> {
  await publish(client, 'talks');
  const params = await openSession(client, 'talks');
  const say = () => client.sendSessionMessage({ params, body: { text: QUESTION } });
  const call = () =>
    client.callAgent({
      params: { org: 'main', agent: 'talks', version: 'latest', endpoint: 'run' },
      body: { message: QUESTION },
    });
  for (let message = 0; message < EARLIER; message++) await say();
  await call();
  const times: { said: number; called: number }[] = [];
  for (let n = 0; n < ROUNDS * IN_A_ROUND; n++) times.push({ said: await timed(say), called: await timed(call) });
  const [said, called] = [median(times.map((each) => each.said)), median(times.map((each) => each.called))];
  return {
    what: `a message of a session with ${EARLIER} to ${EARLIER + times.length} earlier ones, LLM answering at once, one at a time: p50`,
    ours: ms(said),
    beside: `the same call without a session ${ms(called)}`,
    result: `${(said / called).toFixed(2)} x`,
    bound: 'at most 2 x',
    isMet: said <= 2 * called,
  };
}

/** Tokens of the last message, as the scripted model's prompt cache counts them, at the prices of the model. */
async function priceRow(): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-sessions-'));
  const llm = await startScriptedLlm();
  llm.script({ default: { text: 'The ovens come on Monday, and Ada tells the bakery.' } });
  const platform = await startPlatform(join(folder, 'data'), { ...llm.settings });
  try {
    const client = createClient({ baseUrl: platform.url, key: platform.key });
    await publish(client, 'talks');
    const params = await openSession(client, 'talks');
    const workspace = { workspace_id: params.workspace_id };
    await client.putSecret({ params: workspace, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' } });
    for (let message = 0; message < MESSAGES; message++) {
      await client.sendSessionMessage({ params, body: { text: QUESTION } });
    }
    const { items } = await client.listSessionMessages({ params, query: { order: 'desc', limit: 1 } });
    const run = await client.getRun({ params: { ...workspace, run_id: items[0]!.run_id } });
    const { cost_usd, cache_read_tokens: read, cache_write_tokens: written, input_tokens: input, output_tokens } = run;
    const price = (models as unknown as Record<string, ModelFacts>)[run.llm_model!]!.price!.at(-1)!;
    const cost = Number(cost_usd);
    const uncached = (Number(input) * price.input + Number(output_tokens) * price.output) / 1e6;
    return {
      what: `price of message ${items[0]!.number} of a session, ${input} tokens with what was said before`,
      ours: `$${cost.toFixed(4)} (${read} tokens read from the cache, ${written} written)`,
      beside: `without a cache $${uncached.toFixed(4)}`,
      result: `${(cost / uncached).toFixed(2)} of it`,
      bound: 'at most 0.25',
      isMet: cost / uncached <= 0.25,
    };
  } finally {
    await platform.stop();
    await llm.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
