import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectOk } from './expect.ts';

test("a run of a model that only the operator's table has is limited and priced by it", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-models-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'models.json');
  const price = [{ input: 100, output: 1000, cache_read: 0, cache_write: 0 }];
  writeFileSync(file, JSON.stringify({ 'mine-1': { max_output: 1234, price } }));
  const target = await startLocalTarget({ PLATFORM_MODELS: file, PLATFORM_SANDBOX_PRESTART: '0' });
  onTestFinished(() => target.close());
  const user = await target.addUser('models');
  const send = (method: string, path: string, json?: unknown) => request(target, method, path, { key: user.key, json });
  const manifest = { name: 'priced', type: 'prompt', description: 'x', prompt: 'Say it.' };
  expectOk(await send('POST', '/agents', manifest), 201);
  target.llm!.queue({ text: 'Here.', usage: { input: 10, output: 2 } });
  const llm_credentials = { api_key: 'sk-ant-models-0123456789', model: 'mine-1' };
  const answer = await send('POST', '/models/priced/v1/run', { llm_credentials });
  expectOk(answer);
  expect(target.llm!.requests[0]!.body).toMatchObject({ model: 'mine-1', max_tokens: 1234 });
  const run = expectOk(await send('GET', `/workspaces/${user.workspaceId}/runs/${answer.headers.get('x-run-id')}`));
  expect(run).toMatchObject({ llm_model: 'mine-1', cost_usd: 0.003 });
});
