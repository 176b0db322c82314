import { expect, onTestFinished, test } from 'vitest';
import { startModelRecorder } from './model-recorder.ts';

const KEY = 'sk-ant-made-up';
const CALL = {
  method: 'POST',
  headers: { 'x-api-key': 'any', 'content-type': 'application/json' },
  body: '{"model": "claude-sonnet-4-5"}',
};

test('only who knows its address asks with the keys of the environment', async () => {
  const sent: (string | null)[] = [];
  const provider: typeof fetch = async (_, { headers } = {}) => {
    sent.push(new Headers(headers).get('x-api-key'));
    return Response.json({ said: `with ${KEY}` });
  };
  const recorder = await startModelRecorder({ ANTHROPIC_API_KEY: KEY }, provider);
  onTestFinished(() => recorder.close());
  recorder.begin(undefined);
  const address = new URL(Object.values(recorder.settings).find((url) => url.endsWith('/anthropic'))!);
  for (const path of ['/anthropic', '/', `/${'0'.repeat(36)}/anthropic`, '//anthropic']) {
    const refused = await fetch(`${address.origin}${path}/v1/messages`, CALL);
    expect([path, refused.status]).toEqual([path, 502]);
  }
  expect(sent).toEqual([]);
  const answer = await fetch(`${address}/v1/messages`, CALL);
  expect([answer.status, await answer.json()]).toEqual([200, { said: 'with ***' }]);
  expect(sent).toEqual([KEY]);
});
