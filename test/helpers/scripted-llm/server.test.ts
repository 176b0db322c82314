import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptedLlm, startScriptedLlm } from './server.ts';
import type { ScriptedTurn } from './turns.ts';

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

/** Sends messages to OpenAI's chat completions and returns the text of the answer. */
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
    // The first directive is escaped inside JSON text, the second is plain.
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

describe('faults', () => {
  const statusOf = async (text: string, key = 'k'): Promise<number> => {
    const body = { model: 'm', messages: [{ role: 'user', content: text }] };
    return (await post(`${server.url}/openai/v1/chat/completions`, body, { authorization: `Bearer ${key}` })).status;
  };

  test('with `times` come so often, for each conversation and key, and are no turn of the model', async () => {
    const turns: ScriptedTurn[] = [{ status: 500, times: 2 }, { status: 529, times: 1 }, { text: 'at last' }];
    const text = `x [[llm ${JSON.stringify(turns)}]]`;
    for (const key of ['k', 'l']) {
      const statuses = [];
      for (let n = 0; n < 5; n++) statuses.push(await statusOf(text, key));
      expect(statuses).toEqual([500, 500, 529, 200, 200]);
    }
    server.queue({ status: 503, times: 2 }, {});
    expect([await statusOf('a'), await statusOf('a'), await statusOf('a')]).toEqual([503, 503, 200]);
  });

  test('of a part of all requests are the same for the same seed', async () => {
    const played = async (seed: number) => {
      server.reset();
      server.script({ faults: { rate: 0.3, seed, turns: [{ status: 500 }, { status: 529 }] } });
      const statuses = [];
      for (let n = 0; n < 40; n++) statuses.push(await statusOf('a'));
      return statuses.join();
    };
    const first = await played(1);
    expect(first).toMatch(/500.*529.*500/);
    expect(await played(1)).toBe(first);
    expect(await played(2)).not.toBe(first);
    expect(server.asked).toBe(40);
    expect(server.requests[0]!.bytes).toBeGreaterThan(40);
  });
});

describe('the limit of output tokens', () => {
  const ask = async (max_tokens: number, turn: ScriptedTurn, model = 'm') => {
    server.queue(turn);
    const body = { model, max_tokens, messages: [{ role: 'user', content: '?' }] };
    return post(`${server.url}/anthropic/v1/messages`, body, { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' });
  };

  test('thoughts come first, then as much text as there is room for', async () => {
    const turn = { thinkingTokens: 10, text: 'abcdefgh' };
    const told = async (limit: number) => {
      const { body } = await ask(limit, turn);
      const text = body.content.find(({ type }: { type: string }) => type === 'text')?.text;
      return [text, body.stop_reason, body.usage.output_tokens];
    };
    expect(await told(12)).toEqual(['abcdefgh', 'end_turn', 12]);
    expect(await told(11)).toEqual(['abcd', 'max_tokens', 11]);
    expect(await told(10)).toEqual([undefined, 'max_tokens', 10]);
  });

  test('may not be above what the model writes', async () => {
    expect(await ask(128_000, {}, 'claude-sonnet-5-5')).toMatchObject({ status: 200 });
    expect(await ask(128_001, {}, 'claude-sonnet-5-5')).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('max_tokens: 128001 > 128000') } },
    });
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

describe('what comes before a signed thought', () => {
  const system = [{ type: 'text', text: 'Be brief.' }];
  const asked = { role: 'user', content: 'Hi' };
  const ANTHROPIC = { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' };
  const OPENAI = { authorization: 'Bearer k' };

  test('must stay as it was on Anthropic; markers for the cache may move', async () => {
    const ask = (change: object) =>
      post(`${server.url}/anthropic/v1/messages`, { model: 'm', max_tokens: 9, system, ...change }, ANTHROPIC);
    server.queue({ thinking: 'Hm.', toolCalls: [{ name: 'a', id: 't1' }] });
    const { content } = (await ask({ messages: [asked] })).body;
    const answered = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'x' }] };
    const rest = [{ role: 'assistant', content }, answered];
    expect((await ask({ messages: [asked, ...rest] })).status).toBe(200);
    const marked = { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] };
    expect((await ask({ messages: [marked, ...rest] })).status).toBe(200);
    for (const change of [
      { messages: [{ role: 'user', content: 'Hello' }, ...rest] },
      { messages: [asked, ...rest], system: 'Be long.' },
      { messages: [asked, ...rest], tools: [{ name: 'b', input_schema: { type: 'object' } }] },
    ]) {
      const { status, body } = await ask(change);
      expect([status, body.error.message]).toEqual([400, expect.stringContaining('bound to a different conversation')]);
    }
  });

  test('must stay as it was on OpenAI', async () => {
    const ask = (...input: unknown[]) => post(`${server.url}/openai/v1/responses`, { model: 'm', input }, OPENAI);
    server.queue({ thinking: 'Hm.', text: 'Yes?' });
    const { output } = (await ask(asked)).body;
    expect((await ask(asked, ...output, asked)).status).toBe(200);
    const { status, body } = await ask({ role: 'user', content: 'Hello' }, ...output, asked);
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('bound to a different conversation')]);
  });

  test('shows in the hashes of a request', async () => {
    await chat('one');
    await chat('one', { turns: 1 });
    await chat('two', { turns: 1 });
    const [first, longer, other] = server.requests.map(({ prefixes }) => prefixes);
    expect(longer!.slice(0, first!.length)).toEqual(first);
    expect(longer!.length).toBe(first!.length + 2);
    // Both requests have the same tools, which are none.
    expect(other!.filter((hash) => longer!.includes(hash))).toEqual([longer![0]]);
  });
});

describe('a window of 1,000 tokens', () => {
  const long = 'word '.repeat(1000);
  const contents = [{ parts: [{ text: long }] }];
  const messages = [{ role: 'user', content: long }];
  test.each([
    ['anthropic/v1/messages', { max_tokens: 9, messages }, /prompt is too long/],
    ['openai/v1/responses', { input: long }, /exceeds the context window/],
    ['gemini/v1beta/models/m-window-1000:generateContent', { contents }, /exceeds the maximum number of tokens/],
    ['ollama/v1/chat/completions', { messages }, /exceeds the available context size/],
  ])('is too small: %s', async (path, body, words) => {
    const headers = { 'x-api-key': 'k', 'anthropic-version': '1', authorization: 'Bearer k', 'x-goog-api-key': 'k' };
    const answer = await post(`${server.url}/${path}`, { model: 'm-window-1000', ...body }, headers);
    expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringMatching(words)]);
  });

  test('cuts an answer that fills it', async () => {
    server.queue({ text: long });
    const body = {
      model: 'm-window-1000',
      max_tokens: 5000,
      messages: [{ role: 'user', content: 'word '.repeat(400) }],
    };
    const headers = { 'x-api-key': 'k', 'anthropic-version': '1' };
    const answer = await post(`${server.url}/anthropic/v1/messages`, body, headers);
    expect(answer.body).toMatchObject({
      stop_reason: 'model_context_window_exceeded',
      usage: { input_tokens: 500, output_tokens: 500 },
    });
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

describe('caches', () => {
  const key = { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' };
  const mark = { cache_control: { type: 'ephemeral' } };
  const long = 'x'.repeat(8000);
  const ask = async (body: object, provider = 'anthropic') => {
    const request = {
      model: 'claude-sonnet-5-5',
      max_tokens: 9,
      messages: [{ role: 'user', content: 'Hm.' }],
      ...body,
    };
    return post(`${server.url}/${provider}/v1/messages`, request, key);
  };
  const usageOf = async (body: object) => {
    const {
      cache_read_input_tokens: read,
      cache_creation_input_tokens: write,
      input_tokens,
    } = (await ask(body)).body.usage;
    return [input_tokens, read, write];
  };
  const user = (text: string, more = {}) => ({ role: 'user', content: [{ type: 'text', text, ...more }] });

  test('a system message with the tools before it, whatever follows', async () => {
    const tool = (name: string) => ({ name, input_schema: { type: 'object' } });
    const start = { tools: [tool('a')], system: [{ type: 'text', text: long, ...mark }] };
    const [, , write] = await usageOf({ ...start, messages: [user('One.')] });
    expect(write).toBeGreaterThan(2000);
    expect((await usageOf({ ...start, messages: [user('Two.')] }))[1]).toBe(write);
    expect((await usageOf({ ...start, tool_choice: { type: 'none' }, messages: [user('Two.')] }))[1]).toBe(write);
    expect((await usageOf({ ...start, tools: [tool('b')] }))[1]).toBe(0);
  });

  test('a conversation, unless the choice of tools changes', async () => {
    const asked = { messages: [user(long, mark)] };
    expect(await usageOf(asked)).toEqual([0, 0, 2000]);
    expect(await usageOf(asked)).toEqual([0, 2000, 0]);
    expect(await usageOf({ ...asked, tool_choice: { type: 'none' } })).toEqual([0, 0, 2000]);
    // A mark on the request applies to its last block.
    const automatic = [user(long), { role: 'assistant', content: 'Yes.' }, user('Go on.')];
    expect(await usageOf({ ...mark, messages: automatic })).toEqual([0, 2000, expect.any(Number)]);
    server.reset();
    expect(await usageOf(asked)).toEqual([0, 0, 2000]);
  });

  test('a fifth breakpoint, or one of a thought, is refused', async () => {
    const parts = Array.from({ length: 5 }, (_, index) => ({ type: 'text', text: `${index}`, ...mark }));
    const { status, body } = await ask({ messages: [{ role: 'user', content: parts }] });
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('maximum of 4 blocks')]);
    expect((await ask({ messages: [{ role: 'user', content: parts.slice(1) }] })).status).toBe(200);
    const rest = { type: 'text', text: 'rest' };
    expect((await ask({ ...mark, messages: [{ role: 'user', content: [...parts.slice(1), rest] }] })).status).toBe(400);
    const thought = { role: 'assistant', content: [{ type: 'redacted_thinking', data: 'x', ...mark }] };
    expect((await ask({ messages: [user('a'), thought, user('b')] })).status).toBe(400);
  });
});
