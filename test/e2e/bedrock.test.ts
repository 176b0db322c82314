import { expect, onTestFinished, test, vi } from 'vitest';
import { clientOf, request, startLocalTarget } from '#test/helpers/platform.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { expectOk } from './expect.ts';

test('one machine asks Claude on Amazon Bedrock with its AWS credentials, for prompts and loops', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIALOCAL');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'made-up');
  vi.stubEnv('AWS_SESSION_TOKEN', '');
  onTestFinished(() => void vi.unstubAllEnvs());
  const secretOf = (accessKey: string) => (accessKey === 'AKIALOCAL' ? 'made-up' : undefined);
  const bedrock = await startScriptedLlm({ aws: { region: 'eu-central-1', secretOf } });
  onTestFinished(() => bedrock.close());
  const models = { 'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5' };
  const target = await startLocalTarget({
    PLATFORM_BEDROCK_URL: bedrock.url,
    PLATFORM_TRANSPORTS: JSON.stringify({ anthropic: { via: 'bedrock', region: 'eu-central-1', models } }),
    PLATFORM_SANDBOX_PRESTART: '0',
  });
  onTestFinished(() => target.close());
  const user = await target.addUser('bedrock');
  const client = clientOf(target, user.key);
  const described = { description: 'x', supported_providers: ['anthropic'], required_secrets: [] };
  await client.createAgent({ body: { ...described, name: 'prompt', type: 'prompt', prompt: 'Say it.' } });
  const turns = [{ toolCalls: [{ name: 'submit_result', input: { result: 'five' } }] }];
  const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
  await client.createAgent({ body: { ...described, name: 'loop', type: 'agent', prompt, loop: { max_turns: 3 } } });
  const call = (name: string) => request(target, 'POST', `/bedrock/${name}/v1/run`, { key: user.key, json: {} });
  expect(expectOk(await call('prompt')).data).toEqual({ result: 'ok' });
  expect(expectOk(await call('loop')).data).toEqual({ result: 'five' });
  const sent = { provider: 'bedrock', model: 'eu.anthropic.claude-sonnet-5-5', outcome: 'answered' };
  expect(bedrock.requests).toMatchObject([
    { ...sent, stream: false },
    { ...sent, stream: true },
  ]);
  expect(target.llm!.requests).toEqual([]);
});
