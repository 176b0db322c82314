import { type Bench, load, ms, ROUNDS, type Row } from './harness.ts';
import type { Load } from './load.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const BODY = '{"name":"Ada"}';
const SHORT_SECONDS = 2;

/**
 * Alternates calls of the same agent through its webhook and directly. A delivery also looks up its schedule and counts
 * its run there.
 */
export async function benchWebhooks({ platform, client }: Bench): Promise<Row[]> {
  await publishPrompt(client, 'bench-hook', 'claude-bench');
  const { workspaces } = await client.listWorkspaces({});
  const { schedule } = await client.createSchedule({
    params: { workspace_id: workspaces[0]!.id },
    body: { agent: 'main/bench-hook', schedule_type: 'webhook' },
  });
  const key = [`Authorization: Bearer ${platform.key}`];
  const sides = {
    webhook: { url: schedule.webhook_url!, headers: [] },
    call: { url: `${platform.url}/main/bench-hook/v1/run`, headers: key },
  };
  const results: Record<keyof typeof sides, Load[]> = { webhook: [], call: [] };
  for (let round = -1; round < ROUNDS; round++) {
    for (const name of ['webhook', 'call'] as const) {
      const { url, headers } = sides[name];
      const result = await load(url, headers, { connections: 1, seconds: SHORT_SECONDS, body: BODY });
      if (result.failed > 0) throw new Error(`${name}: ${result.failed} failed`);
      // The first round is warm-up.
      if (round >= 0) results[name].push(result);
    }
  }
  const each = (name: keyof typeof sides): number => median(results[name].map((l) => 1000 / l.requestsPerSecond));
  const ratio = each('webhook') / each('call');
  return [
    {
      what: 'webhook of a prompt agent, LLM answering at once, one delivery after the other',
      ours: ms(each('webhook')),
      beside: `call of the same agent ${ms(each('call'))}`,
      result: `${ratio.toFixed(2)} x`,
      bound: 'at most 1.15 x',
      isMet: ratio <= 1.15,
    },
  ];
}
