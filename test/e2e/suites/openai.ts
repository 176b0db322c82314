import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { png } from '#test/helpers/sample-files.ts';
import { expectOk, UUID } from '../expect.ts';

const CHAT = '/openai/v1/chat/completions';
const RESPONSES = '/openai/v1/responses';

interface Chunk {
  readonly event?: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into data of every shape.
  readonly data: any;
}

/** Reads a whole stream of the wire; its last record may be `[DONE]`. */
function chunksOf(text: string): Chunk[] {
  const records = text
    .split('\n\n')
    .filter((part) => part !== '' && !part.startsWith(':') && !part.startsWith('retry'));
  return records.map((part) => {
    const [, event, data] = /^(?:event: (\S+)\n)?data: (.*)$/.exec(part)!;
    return { ...(event !== undefined && { event }), data: data === '[DONE]' ? data : JSON.parse(data!) };
  });
}

/** OpenAI's wire: agents as models. */
export function openAiSuite(target: () => Target): void {
  describe.skipIf(!needsModel(target()))('an agent behind the API of OpenAI', () => {
    let client: Client;
    const ask = (path: string, json: unknown, headers?: Record<string, string>) =>
      request(target(), 'POST', path, { key: target().key, json, headers });
    const read = (path: string, headers?: Record<string, string>) =>
      request(target(), 'GET', path, { key: target().key, headers });
    const says = (text: string, turn: object) => `${text} [[llm ${JSON.stringify(turn)}]]`;
    const user = (content: unknown) => ({ role: 'user', content });

    beforeAll(async () => {
      client = clientOf(target());
      const { workspaces } = await client.listWorkspaces({});
      const workspace_id = workspaces.find(({ slug }) => slug === target().slug)!.id;
      await client.putSecret({
        params: { workspace_id },
        body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' },
      });
      const common = { description: 'tests the wire', supported_providers: ['anthropic'] };
      const prompt = { ...common, type: 'prompt', prompt: '{{message}}' };
      await client.createAgent({ body: { ...prompt, name: 'wired' } });
      const turn = JSON.stringify({ text: 'The sea is wide.' });
      await client.createAgent({ body: { ...prompt, name: 'wired-poet', prompt: `{{message}} [[llm ${turn}]]` } });
      const output_schema = {
        type: 'object',
        properties: { reply: { type: 'string' }, mood: { type: 'string' } },
        required: ['reply', 'mood'],
      };
      await client.createAgent({ body: { ...prompt, name: 'wired-shape', output_schema } });
      const input_schema = {
        type: 'object',
        properties: { from: { type: 'string' }, to: { type: 'string' } },
        required: ['from', 'to'],
      };
      await client.createAgent({ body: { ...prompt, name: 'wired-two', prompt: '{{from}} {{to}}', input_schema } });
      const model_settings = { callers_may_set: ['temperature'] };
      await client.createAgent({
        body: { ...prompt, name: 'wired-warm', model_settings, supported_providers: ['anthropic'] },
      });
    });

    const lastRequest = () => target().llm.requests.at(-1)!;

    test('agents are listed as models, and found by their name', async () => {
      const { object, data } = expectOk(await read('/openai/v1/models'));
      expect(object).toBe('list');
      const model = data.find(({ id }: { id: string }) => id === 'acme/wired');
      expect(model).toMatchObject({ object: 'model', owned_by: 'acme', created: expect.any(Number) });
      expect(expectOk(await read('/openai/v1/models/acme%2Fwired%40v1'))).toMatchObject({ id: 'acme/wired@v1' });
      const unknown = await read('/openai/v1/models/acme%2Fnobody');
      expect(unknown).toMatchObject({ status: 404, body: { error: { code: 'model_not_found', param: 'model' } } });
    });

    test('a chat completion is the answer of the agent, with its usage', async () => {
      const answer = await ask(CHAT, {
        model: 'acme/wired',
        messages: [user(says('hello', { text: 'Good day.' }))],
        temperature: 0.2,
        max_tokens: 5000,
        user: 'u1',
      });
      const body = expectOk(answer);
      expect(body).toMatchObject({
        object: 'chat.completion',
        model: 'acme/wired@v1',
        choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Good day.' } }],
      });
      expect(body.id).toBe(`chatcmpl-${answer.headers.get('x-run-id')}`);
      expect(answer.headers.get('x-run-id')).toMatch(UUID);
      expect(answer.headers.get('x-ratelimit-limit')).not.toBeNull();
      const { prompt_tokens, completion_tokens, total_tokens } = body.usage;
      expect(prompt_tokens).toBeGreaterThan(0);
      expect(total_tokens).toBe(prompt_tokens + completion_tokens);
    });

    test('an agent may have its own model answer whatever is said', async () => {
      const messages = [{ role: 'user', content: 'Write about the sea.', name: 'ann' }];
      // What chat programs send with each request has no effect unless the author allows it.
      const sent = {
        temperature: 0.7,
        top_p: 1,
        presence_penalty: 0,
        frequency_penalty: 0,
        seed: 7,
        n: 1,
        user: 'ann',
      };
      const chat = { model: 'acme/wired-poet', messages, max_completion_tokens: 500, stream: false, ...sent };
      expect(expectOk(await ask(CHAT, chat)).choices[0].message.content).toBe('The sea is wide.');
      const input = 'Write about the sea.';
      const more = { instructions: 'Be brief.', metadata: { topic: 'sea' }, store: true };
      const response = expectOk(await ask(RESPONSES, { model: 'acme/wired-poet', input, ...more }));
      expect(response).toMatchObject({
        instructions: 'Be brief.',
        output: [{ content: [{ text: 'The sea is wide.' }] }],
      });
      const items = expectOk(await read(`${RESPONSES}/${response.id}/input_items`));
      expect(items.data[0].content[0].text).toContain(input);
    });

    test('a streamed chat completion has the same text, in pieces', async () => {
      const turn = { text: 'One two three four.' };
      const answer = await ask(CHAT, {
        model: 'acme/wired@latest',
        messages: [user(says('count', turn))],
        stream: true,
        stream_options: { include_usage: true },
      });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toBe('text/event-stream');
      const chunks = chunksOf(answer.body);
      expect(chunks.at(-1)!.data).toBe('[DONE]');
      const parts = chunks.slice(0, -1).map(({ data }) => data);
      expect(parts[0].choices[0].delta).toEqual({ role: 'assistant', content: '' });
      const text = parts.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
      expect(text).toBe('One two three four.');
      expect(parts.at(-2).choices[0].finish_reason).toBe('stop');
      expect(parts.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
      expect(new Set(parts.map(({ id }) => id)).size).toBe(1);
      expect(chunks.every(({ event }) => event === undefined)).toBe(true);
    });

    test('instructions and earlier messages reach the model', async () => {
      const messages = [
        { role: 'system', content: 'Speak like a pirate.' },
        user('My name is Ada.'),
        { role: 'assistant', content: 'Ahoy, scripted Ada.' },
        user(says('What is my name?', { text: 'Ada' })),
      ];
      expectOk(await ask(CHAT, { model: 'acme/wired', messages }));
      const sent = JSON.stringify(lastRequest().body);
      expect(sent).toContain('Speak like a pirate.');
      expect(sent).toContain('My name is Ada.');
      expect(sent).toContain('Ahoy, scripted Ada.');
    });

    test('files are given to the agent, and addresses are refused', async () => {
      const url = `data:image/png;base64,${png().toString('base64')}`;
      const text = says('What is this?', { text: 'A picture.' });
      const content = [
        { type: 'text', text },
        { type: 'image_url', image_url: { url } },
      ];
      const seen = expectOk(await ask(CHAT, { model: 'acme/wired', messages: [user(content)] }));
      expect(seen.choices[0].message.content).toBe('A picture.');
      expect(JSON.stringify(lastRequest().body)).toContain('image/png');
      const remote = [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }];
      const refused = await ask(CHAT, { model: 'acme/wired', messages: [user(remote)] });
      expect(refused.status).toBe(400);
      expect(refused.body.error).toMatchObject({
        param: 'messages[0].content[0].image_url',
        message: expect.stringContaining('data: URL'),
      });
    });

    test('an agent with a shape answers with its text, or with all of it as JSON', async () => {
      const output = { reply: 'Yes.', mood: 'calm' };
      const messages = [user(says('well?', { text: JSON.stringify(output) }))];
      const said = expectOk(await ask(CHAT, { model: 'acme/wired-shape', messages }));
      expect(said.choices[0].message.content).toBe('Yes.');
      const response_format = { type: 'json_object' };
      const whole = expectOk(await ask(CHAT, { model: 'acme/wired-shape', messages, response_format }));
      expect(JSON.parse(whole.choices[0].message.content)).toEqual(output);
      const streamed = chunksOf((await ask(CHAT, { model: 'acme/wired-shape', messages, stream: true })).body);
      expect(streamed.map(({ data }) => data.choices?.[0].delta.content ?? '').join('')).toBe('Yes.');
      const schema = { type: 'json_schema', json_schema: { name: 'x', schema: {} } };
      const other = await ask(CHAT, { model: 'acme/wired', messages, response_format: schema });
      expect(other).toMatchObject({ status: 400, body: { error: { param: 'response_format' } } });
    });

    test('an agent with several members takes them as JSON', async () => {
      const input = { from: 'Rome', to: '[[llm {"text":"By train."}]]' };
      const json = expectOk(await ask(CHAT, { model: 'acme/wired-two', messages: [user(JSON.stringify(input))] }));
      expect(json.choices[0].message.content).toBe('By train.');
      const text = await ask(CHAT, { model: 'acme/wired-two', messages: [user('from Rome')] });
      expect(text.status).toBe(400);
      expect(text.body.error.message).toMatch(/"from", "to".*JSON object/);
    });

    test('settings have an effect where the author allows them', async () => {
      const messages = [user(says('hi', { text: 'ok' }))];
      const wrong = await ask(CHAT, { model: 'acme/wired-warm', messages, temperature: 9 });
      expect(wrong).toMatchObject({ status: 400, body: { error: { param: 'temperature' } } });
      expectOk(await ask(CHAT, { model: 'acme/wired', messages, temperature: 9 }));
    });

    test('errors have the shape that clients of OpenAI read', async () => {
      const without = await request(target(), 'POST', CHAT, { json: {} });
      expect(without).toMatchObject({ status: 401, body: { error: { code: 'invalid_api_key', param: null } } });
      expect(without.body.error.type).toBe('invalid_request_error');
      expect(without.headers.get('x-should-retry')).toBe('false');
      const messages = [user('hi')];
      const unknown = await ask(CHAT, { model: 'acme/nobody', messages });
      expect(unknown).toMatchObject({ status: 404, body: { error: { code: 'model_not_found' } } });
      const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
      const tooled = await ask(CHAT, { model: 'acme/wired', messages, tools });
      expect(tooled).toMatchObject({ status: 400, body: { error: { param: 'tools' } } });
      const quiet = { model: 'acme/wired', messages: [user(says('hi', { text: 'ok' }))], tools, tool_choice: 'none' };
      expectOk(await ask(CHAT, quiet));
      const silent = await ask(CHAT, { model: 'acme/wired', messages: [{ role: 'assistant', content: 'hi' }] });
      expect(silent).toMatchObject({ status: 400, body: { error: { param: 'messages' } } });
      const noModel = await ask(RESPONSES, { input: 'hi' });
      expect(noModel).toMatchObject({ status: 400, body: { error: { param: 'model' } } });
    });

    test('a failed run is an error, and the last record of a stream', async () => {
      const failing = { model: 'acme/wired', messages: [user(says('hi', { status: 400 }))] };
      const failed = await ask(CHAT, failing);
      expect(failed).toMatchObject({ status: 502, body: { error: { type: 'server_error', code: 'llm_error' } } });
      const streamed = chunksOf((await ask(CHAT, { ...failing, stream: true })).body);
      expect(streamed.at(-1)!.data.error.code).toBe('llm_error');
      const input = says('hi', { status: 400 });
      const events = chunksOf((await ask(RESPONSES, { model: 'acme/wired', input, store: false, stream: true })).body);
      expect(events.at(-1)).toMatchObject({ event: 'response.failed', data: { response: { status: 'failed' } } });
    });

    test('a response has the text as a message, and can be read again', async () => {
      const input = says('hello', { text: 'Good day.' });
      const answer = await ask(RESPONSES, { model: 'acme/wired', input, metadata: { a: 'b' } });
      const body = expectOk(answer);
      expect(body).toMatchObject({
        object: 'response',
        status: 'completed',
        model: 'acme/wired@v1',
        error: null,
        metadata: { a: 'b' },
        output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Good day.' }] }],
      });
      expect(body.id).toBe(`resp_${answer.headers.get('x-run-id')}`);
      const again = expectOk(await read(`${RESPONSES}/${body.id}`));
      expect(again).toMatchObject({ id: body.id, status: 'completed', output: body.output, usage: body.usage });
      const items = expectOk(await read(`${RESPONSES}/${body.id}/input_items`));
      expect(items.data[0].content[0].text).toBe(input);
      // Another tenant, and made-up ids.
      const foreign = await read(`${RESPONSES}/${body.id}`, { 'x-platform-tenant': 'other' });
      expect(foreign).toMatchObject({ status: 404, body: { error: { param: 'response_id' } } });
      expect((await read(`${RESPONSES}/resp_nothing`)).status).toBe(404);
      expect((await read(`${RESPONSES}/resp_${crypto.randomUUID()}`)).status).toBe(404);
    });

    test('the events of a response are numbered, and continue from any of them', async () => {
      const input = says('count', { text: 'One two three four five.' });
      const streamed = chunksOf((await ask(RESPONSES, { model: 'acme/wired', input, stream: true })).body);
      expect(streamed.map(({ event }) => event)).toEqual([
        'response.created',
        'response.in_progress',
        'response.output_item.added',
        'response.content_part.added',
        ...Array(streamed.length - 8).fill('response.output_text.delta'),
        'response.output_text.done',
        'response.content_part.done',
        'response.output_item.done',
        'response.completed',
      ]);
      const numbers = streamed.map(({ data }) => data.sequence_number);
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      const { id } = streamed.at(-1)!.data.response;
      const deltas = (chunks: Chunk[]) =>
        chunks.flatMap(({ event, data }) => (event === 'response.output_text.delta' ? data.delta : [])).join('');
      for (const lost of [0, 3, 5, streamed.length - 3]) {
        const after = numbers[lost];
        const rest = chunksOf((await read(`${RESPONSES}/${id}?stream=true&starting_after=${after}`)).body);
        expect(deltas(streamed.slice(0, lost + 1)) + deltas(rest)).toBe('One two three four five.');
        expect(rest[0]!.data.sequence_number).toBeGreaterThan(after);
        const { event, data } = rest.at(-1)!;
        expect({ event, number: data.sequence_number }).toEqual({
          event: 'response.completed',
          number: numbers.at(-1),
        });
      }
    });

    test('a response in the background is polled, followed and cancelled', async () => {
      const slow = says('think', { text: 'Done.', delayMs: 500 });
      const started = expectOk(await ask(RESPONSES, { model: 'acme/wired', input: slow, background: true }));
      expect(started).toMatchObject({ status: 'in_progress', background: true, output: [] });
      await expect
        .poll(async () => (await read(`${RESPONSES}/${started.id}`)).body.status, { timeout: 30_000 })
        .toBe('completed');
      const input = says('think', { text: 'Followed.' });
      const followed = await ask(RESPONSES, { model: 'acme/wired', input, background: true, stream: true });
      const last = chunksOf(followed.body).at(-1)!;
      expect(last).toMatchObject({ event: 'response.completed' });
      expect(last.data.response.output[0].content[0].text).toBe('Followed.');
      const endless = says('think', { text: 'Never.', delayMs: 60_000 });
      const doomed = expectOk(await ask(RESPONSES, { model: 'acme/wired', input: endless, background: true }));
      expect(expectOk(await ask(`${RESPONSES}/${doomed.id}/cancel`, {})).status).toBe('cancelled');
    });

    test('a response continues another, as the next message of its session', async () => {
      const first = expectOk(
        await ask(RESPONSES, { model: 'acme/wired', input: says('I am Ada.', { text: 'Hello Ada.' }) }),
      );
      expect(first.conversation.id).toMatch(/^conv_[0-9a-f]{32}$/);
      const next = { model: 'acme/wired', previous_response_id: first.id };
      const second = expectOk(await ask(RESPONSES, { ...next, input: says('And now?', { text: 'Still Ada.' }) }));
      expect(second).toMatchObject({ previous_response_id: first.id, conversation: first.conversation });
      const said = JSON.stringify(lastRequest().body);
      expect(said).toContain('I am Ada.');
      expect(said).toContain('Hello Ada.');
      // Two answers to the same response are two conversations.
      const other = expectOk(await ask(RESPONSES, { ...next, input: says('Otherwise?', { text: 'Bye.' }) }));
      expect(other.conversation.id).not.toBe(first.conversation.id);
      expect(JSON.stringify(lastRequest().body)).not.toContain('Still Ada.');
      // What is not stored reads the conversation, and adds nothing to it.
      const aside = { ...next, previous_response_id: second.id, store: false };
      const unstored = expectOk(await ask(RESPONSES, { ...aside, input: says('Aside?', { text: 'Aside.' }) }));
      expect(JSON.stringify(lastRequest().body)).toContain('Still Ada.');
      expect(unstored.conversation).toBeNull();
      const after = await ask(RESPONSES, { ...next, previous_response_id: unstored.id, input: 'x' });
      expect(after).toMatchObject({ status: 400, body: { error: { param: 'previous_response_id' } } });
    });

    test('a conversation is a session, which its deletion erases', async () => {
      const metadata = { agent: 'acme/wired', topic: 'sums' };
      const { id } = expectOk(await ask('/openai/v1/conversations', { metadata }));
      const input = says('marker-one', { text: 'First.' });
      const first = expectOk(await ask(RESPONSES, { model: 'acme/wired', conversation: id, input }));
      expect(first.conversation).toEqual({ id });
      const again = says('Two.', { text: 'Second.' });
      expectOk(await ask(RESPONSES, { model: 'acme/wired', conversation: { id }, input: again }));
      expect(JSON.stringify(lastRequest().body)).toContain('marker-one');
      expect(expectOk(await read(`/openai/v1/conversations/${id}`))).toMatchObject({
        id,
        object: 'conversation',
        metadata,
      });
      const foreign = { 'x-platform-tenant': 'other' };
      expect((await read(`/openai/v1/conversations/${id}`, foreign)).status).toBe(404);
      const stolen = await ask(RESPONSES, { model: 'acme/wired', conversation: id, input: 'x' }, foreign);
      expect(stolen).toMatchObject({ status: 404, body: { error: { param: 'conversation' } } });
      const remove = (path: string) => request(target(), 'DELETE', path, { key: target().key });
      expect(expectOk(await remove(`/openai/v1/conversations/${id}`))).toMatchObject({ deleted: true });
      expect((await read(`/openai/v1/conversations/${id}`)).status).toBe(404);
      expect((await read(`${RESPONSES}/${first.id}`)).status).toBe(404);
      const without = await ask('/openai/v1/conversations', {});
      expect(without).toMatchObject({ status: 400, body: { error: { param: 'metadata.agent' } } });
    });

    test('a deleted response is gone', async () => {
      const input = says('marker-two', { text: 'Gone.' });
      const { id } = expectOk(await ask(RESPONSES, { model: 'acme/wired', input, store: false }));
      const path = `${RESPONSES}/${id}`;
      const removed = expectOk(await request(target(), 'DELETE', path, { key: target().key }));
      expect(removed).toEqual({ id, object: 'response', deleted: true });
      expect((await read(path)).status).toBe(404);
      expect((await request(target(), 'DELETE', path, { key: target().key })).status).toBe(404);
    });

    test('a chat may be a message of a session', async () => {
      const headers = { 'x-platform-session': 'wire-chat-1' };
      const messages = [user(says('I am Bob.', { text: 'Hello Bob.' }))];
      const first = await ask(CHAT, { model: 'acme/wired', messages }, headers);
      expect(first.headers.get('x-platform-session')).toMatch(/^ses_/);
      const next = [user(says('Who am I?', { text: 'Bob.' }))];
      expectOk(await ask(CHAT, { model: 'acme/wired', messages: next }, headers));
      expect(JSON.stringify(lastRequest().body)).toContain('Hello Bob.');
    });
  });
}
