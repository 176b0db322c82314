import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptedLlm, startScriptedLlm } from './server.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const post = async (url: string, body: unknown, headers: Record<string, string> = {}) => {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), headers });
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs.
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
};

/** The text that OpenAI's chat completions answer to these messages. */
async function chat(content: string, { key = 'k', turns = 0, url = server.url } = {}): Promise<string> {
  const past = Array.from({ length: turns }, () => [
    { role: 'user', content },
    { role: 'assistant', content: 'hm' },
  ]).flat();
  const messages = [...past, { role: 'user', content }];
  const headers = { authorization: `Bearer ${key}` };
  const { body } = await post(`${url}/openai/v1/chat/completions`, { model: 'm', messages }, headers);
  return body.choices[0].message.content;
}

describe('what is answered', () => {
  test('a directive in the conversation, by turn; the last one goes on', async () => {
    const text = 'Do [[llm [{"text":"one"},{"text":"[[two]]"}]]] now.';
    expect(await chat(text)).toBe('one');
    expect(await chat(text, { turns: 1 })).toBe('[[two]]');
    expect(await chat(text, { turns: 5 })).toBe('[[two]]');
    // As it stands inside JSON text, and again plain.
    expect(await chat(`${JSON.stringify('[[llm {"text":"no"}]]')} [[llm {"text":"yes"}]]`)).toBe('yes');
  });

  test('a rule, before the queues', async () => {
    server.script({ rules: [{ marker: 'weather', turns: [{ text: 'rain' }] }], turns: [{ text: 'queued' }] });
    expect(await chat('The weather?')).toBe('rain');
    expect(await chat('Anything else?')).toBe('queued');
    expect(await chat('And now?')).toBe('ok');
  });

  test('the queue of the key, then that of all', async () => {
    server.script({ key: 'mine', turns: [{ text: 'for me' }] });
    server.script({ turns: [{ text: 'for all' }], default: { text: 'nothing left' } });
    expect(await chat('?', { key: 'mine' })).toBe('for me');
    expect(await chat('?', { key: 'mine' })).toBe('for all');
    expect(await chat('?')).toBe('nothing left');
  });
});

describe('what the providers refuse, too', () => {
  const anthropic = (messages: unknown, headers: Record<string, string> = { 'anthropic-version': '2023-06-01' }) =>
    post(
      `${server.url}/anthropic/v1/messages`,
      { model: 'm', max_tokens: 9, messages },
      { 'x-api-key': 'k', ...headers },
    );

  test('Anthropic', async () => {
    expect((await anthropic([{ role: 'user', content: 'Hi' }])).status).toBe(200);
    expect((await anthropic([{ role: 'user', content: 'Hi' }], {})).body.error.message).toContain('anthropic-version');
    const call = { type: 'tool_use', id: 't1', name: 'a', input: {} };
    const unanswered = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [call] },
    ];
    expect((await anthropic(unanswered)).body.error).toMatchObject({ type: 'invalid_request_error' });
    const strayed = [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't2', content: 'x' }] }];
    expect((await anthropic(strayed)).status).toBe(400);
    const forged = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm', signature: 'mine' }] },
    ];
    expect((await anthropic(forged)).body.error.message).toContain('signature');
  });

  test('OpenAI', async () => {
    const body = { model: 'm', input: 'Hello', text: { format: { type: 'json_object' } } };
    const headers = { authorization: 'Bearer k' };
    const refused = await post(`${server.url}/openai/v1/responses`, body, headers);
    expect(refused).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
    expect((await post(`${server.url}/openai/v1/responses`, body)).status).toBe(401);
  });

  test('Gemini', async () => {
    const url = `${server.url}/gemini/v1beta/models/m:generateContent`;
    expect((await post(url, { contents: [] }, { 'x-goog-api-key': 'k' })).status).toBe(400);
    const wrong = await post(url, { contents: [{ parts: [{ text: 'Hi' }] }] }, { 'x-goog-api-key': 'refused' });
    expect(wrong).toMatchObject({ status: 400, body: { error: { status: 'INVALID_ARGUMENT' } } });
  });
});

test('another process scripts it and reads what was asked', async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    await post(`${url}/script`, { turns: [{ text: 'scripted' }] });
    expect(await chat('Hello', { url, key: 'k1' })).toBe('scripted');
    const requests = await (await fetch(`${url}/requests`)).json();
    expect(requests).toMatchObject([{ provider: 'openai', apiKey: 'k1', text: 'Hello', outcome: 'answered' }]);
    await fetch(`${url}/script`, { method: 'DELETE' });
    expect(await (await fetch(`${url}/requests`)).json()).toEqual([]);
  } finally {
    child.kill();
    await once(child, 'exit');
  }
});
