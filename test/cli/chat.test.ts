import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { LocalTarget } from '../helpers/platform.ts';
import { startChatTarget } from './chat-agents.ts';
import { commandLine, type Settings, signedInAt, startCommandLine } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

let target: LocalTarget;
beforeAll(async () => {
  target = await startChatTarget();
});
afterAll(() => target?.close());

const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedInAt(target, settings));
const linesOf = (text: string) =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('messages from a pipe', () => {
  test('are answered in lines of JSON, in one session', async () => {
    const ended = await platform('chat helper', { stdin: 'First\\\nand more\n\nSecond\n' });
    expect(ended.status, ended.stderr).toBe(0);
    const [first, second] = linesOf(ended.stdout);
    expect(first).toMatchObject({ text: 'One.', data: { result: 'One.' }, run_id: expect.any(String) });
    expect(second).toMatchObject({ text: 'Two.', session_id: first.session_id });
    const shown = await platform(`sessions messages ${first.session_id} --order asc`);
    expect(shown.json.items).toMatchObject([
      { input: { message: 'First\nand more' } },
      { input: { message: 'Second' } },
    ]);
  });

  test('begin a session of their own, unless they name one', async () => {
    const talk = async (options: string) =>
      linesOf((await platform(`chat main/helper ${options}`, { stdin: 'Hi' })).stdout)[0];
    const [one, other] = [await talk('--new'), await talk('--new')];
    expect(one.session_id).not.toBe(other.session_id);
    const named = await talk('--session order-17');
    expect(await talk('--session order-17')).toMatchObject({ text: 'Two.', session_id: named.session_id });
    expect(await talk(`--session ${named.session_id}`)).toMatchObject({ text: 'Three.' });
    expect(await platform(`chat slow --session ${named.session_id}`, { stdin: 'Hi' })).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('a conversation with main/helper, not with main/slow'),
    });
    expect(await platform('chat helper --new --session a')).toMatchObject({ status: 5 });
  });

  test('of a tenant are its own', async () => {
    const mine = await platform('chat helper --tenant ada', { stdin: 'Hi' });
    const id = linesOf(mine.stdout)[0].session_id;
    expect(await platform(`chat helper --session ${id}`, { stdin: 'Hi' })).toMatchObject({ status: 4, stdout: '' });
    expect(await platform(`chat helper --session ${id} --tenant ada`, { stdin: 'Hi' })).toMatchObject({ status: 0 });
  });

  test('end with the first that fails', async () => {
    const ended = await platform('chat failing', { stdin: 'One\nTwo\n' });
    expect(ended).toMatchObject({ status: 8, stdout: '' });
    expect(JSON.parse(ended.stderr.trim().split('\n').at(-1)!).error.code).toBe('LLM_ERROR');
    expect(await platform('chat nobody', { stdin: 'Hi' })).toMatchObject({ status: 4 });
    expect(await platform('chat helper@v9', { stdin: 'Hi' })).toMatchObject({ stdout: '', status: expect.any(Number) });
  });

  test('are printed without control characters, and Ctrl-C stops them', async () => {
    const ended = await platform('chat hostile', { stdin: 'Hi', columns: 80 });
    expect(ended.stdout).toBe('Bell clear end\n');
    const slow = startCommandLine(['chat', 'slow'], signedInAt(target, { stdin: 'Hi', columns: 80 }));
    await expect.poll(() => slow.written.stdout, { timeout: 20_000 }).toContain('slowly');
    slow.interrupt();
    expect(await slow.ended).toBe(130);
    expect(slow.written.stderr).toContain('Stopping the run.');
  });

  test('go on after a lost connection, and no text is shown twice', async () => {
    let streams = 0;
    const cutting: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
      if (!isStream || init?.method !== 'POST') return response;
      streams++;
      const source = response.body!.getReader();
      let text = '';
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          const { done, value } = await source.read();
          if (done) return controller.close();
          text += new TextDecoder().decode(value);
          controller.enqueue(value);
          if (!text.includes('text_delta')) return;
          await source.cancel();
          controller.error(new TypeError('terminated'));
        },
      });
      return new Response(body, { headers: response.headers });
    };
    const ended = await platform('chat helper', { stdin: 'Hi', columns: 80, fetch: cutting });
    expect(ended).toMatchObject({ status: 0, stdout: 'One.\n' });
    expect(streams).toBe(1);
  });
});

describe('platform sessions', () => {
  test('opens, lists, shows, changes, forks, exports and erases conversations', async () => {
    const named = 'sessions open main/helper --name order-21 --ttl-days 7';
    const { id } = (await platform(`${named} --title Ovens`)).json;
    expect((await platform(named)).json).toMatchObject({ id, title: 'Ovens', ttl_days: 7 });
    await platform('chat helper --session order-21', { stdin: 'One?\nTwo?\n' });

    const list = await platform('sessions list --agent main/helper', { columns: 160 });
    const row = list.stdout.split('\n').find((line) => line.includes('order-21'))!;
    expect(row.split(/ {2,}/).slice(0, 6)).toEqual([id.slice(0, 12), 'main/helper', 'order-21', 'Ovens', 'idle', '2']);
    const said = await platform(`sessions messages ${id.slice(0, 12)}`, { columns: 160 });
    expect(said.stdout).toMatch(/^1 +completed +One\? +One\. /m);
    expect(said.stdout).toMatch(/^2 +completed +Two\? +Two\. /m);
    const changed = await commandLine(['sessions', 'update', 'Ovens', '--title', 'The ovens'], signedInAt(target));
    expect(changed.json).toMatchObject({ id, title: 'The ovens' });

    const fork = (await platform('sessions fork order-21 1')).json;
    expect(fork).toMatchObject({ messages: 1, forked_from: { session_id: id, after: 1 } });
    expect(await platform('sessions fork order-21 9')).toMatchObject({ status: expect.any(Number), stdout: '' });
    const [session, ...messages] = linesOf((await platform('sessions export order-21')).stdout);
    expect(session).toMatchObject({ id, external_id: 'order-21' });
    expect(messages).toMatchObject([{ number: 1, input: { message: 'One?' } }, { number: 2 }]);

    expect(await platform('sessions delete order-21')).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('--yes'),
    });
    expect((await platform('sessions delete order-21 --yes')).status).toBe(0);
    expect((await platform(`sessions show ${id}`)).status).toBe(4);
    expect(await platform('sessions show order-21')).toMatchObject({ status: 4, stdout: '' });
    expect((await platform(`sessions show ${fork.id}`)).json).toMatchObject({ messages: 1 });
  });

  test('shows a tenant what is its own', async () => {
    const { id } = (await platform('sessions open main/helper --tenant ada')).json;
    expect((await platform(`sessions show ${id} --tenant ada`)).json).toMatchObject({ tenant_id: 'ada' });
    expect(await platform(`sessions show ${id} --tenant grace`)).toMatchObject({ status: 4, stdout: '' });
    const own = (await platform('sessions list --tenant ada')).json.sessions;
    expect(new Set(own.map((each: { tenant_id: string }) => each.tenant_id))).toEqual(new Set(['ada']));
  });
});
