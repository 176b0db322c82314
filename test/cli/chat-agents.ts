import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';

/** What an attacker would have a terminal do. */
const HOSTILE = 'Bell\u0007 \u001b[2Jclear \u001b]0;title\u0007end\u202e';

/** Starts a platform with agents to talk with, whose models are scripted. */
export async function startChatTarget(): Promise<LocalTarget> {
  const target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  const params = { workspace_id: (await client.getOrg({})).id };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
  const publish = (name: string, prompt: string, more: object) =>
    client.createAgent({ body: { name, type: 'prompt', description: 'x', prompt, ...more } });
  const anthropic = { supported_providers: ['anthropic'] };
  for (const [name, prompt] of [
    ['helper', 'Help.'],
    ['hostile', 'Attack.'],
    ['slow', 'Wait.'],
    ['failing', 'Fail.'],
  ] as const) {
    await publish(name, prompt, anthropic);
  }
  const input_schema = { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] };
  const refund = { name: 'refund', description: 'x', command: 'echo {{amount}}', input_schema, approval: 'always' };
  const loop = { type: 'agent', required_secrets: [] };
  await publish('teller', 'Refund.', { ...loop, custom_tools: [refund], loop: { tools: [] } });
  await publish('asker', 'Ask.', { ...loop, loop: { tools: ['ask_human'] } });
  const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'Settled.' } }] };
  const said = ['One.', 'Two.', 'Three.', 'Four.'].map((text) => ({ text }));
  target.llm.script({
    rules: [
      { marker: 'Help.', turns: said },
      { marker: 'Attack.', turns: [{ text: HOSTILE }] },
      { marker: 'Wait.', turns: [{ text: 'slowly '.repeat(200), chunkDelayMs: 500 }] },
      { marker: 'Fail.', turns: [{ status: 400 }] },
      { marker: 'Refund.', turns: [{ toolCalls: [{ name: 'refund', input: { amount: 250 } }] }, submit] },
      { marker: 'Ask.', turns: [{ toolCalls: [{ name: 'ask_human', input: { question: 'Which colour?' } }] }, submit] },
    ],
  });
  return target;
}
