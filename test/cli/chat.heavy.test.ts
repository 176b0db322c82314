import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { LocalTarget } from '../helpers/platform.ts';
import { startChatTarget } from './chat-agents.ts';
import { commandLine, signedInAt, tempFolder } from './command-line.ts';
import { noTerminal, typedCommand } from './terminal.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

let target: LocalTarget;
beforeAll(async () => {
  target = await startChatTarget();
});
afterAll(() => target?.close());

const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const ENTER = '\r';
const UP = '\u001b[A';

const platform = (line: string) => commandLine(line.split(' '), signedInAt(target));
const linesOf = (text: string) =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe.skipIf(noTerminal)('at a terminal', () => {
  const chat = (line: string, cwd = tempFolder()) =>
    typedCommand(['chat', ...line.split(' ')], {
      cwd,
      env: { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key },
    });

  test('answers are streamed, lines are continued and pasted, and arrow keys bring messages back', async () => {
    const talk = chat('helper --session typed');
    await talk.shows('/help lists the commands');
    talk.type(`First\\${ENTER}`);
    await talk.shows('… ');
    talk.type(`line${ENTER}`);
    await talk.shows('One.');
    await talk.shows('> ');
    talk.type(`\u001b[200~Pasted\rlines\u001b[201~`);
    await talk.shows('lines');
    talk.type(ENTER);
    await talk.shows('Two.');
    await talk.shows('> ');
    talk.type(UP + UP);
    await talk.shows('First line');
    talk.type(ENTER);
    await talk.shows('Three.');
    talk.type(CTRL_D);
    expect(await talk.ended).toBe(0);
    const { items } = (await platform('sessions messages typed --order asc')).json;
    expect(items.map(({ input }: { input: { message: string } }) => input.message)).toEqual([
      'First\nline',
      'Pasted\nlines',
      'First line',
    ]);
  });

  test('commands begin, list, fork, name and export conversations; the last one is continued', async () => {
    const cwd = tempFolder();
    writeFileSync(join(cwd, 'there.jsonl'), 'mine');
    const talk = chat('helper --new', cwd);
    const does = async (line: string, shows: string | RegExp) => {
      await talk.shows('> ');
      talk.type(line + ENTER);
      return talk.shows(shows);
    };
    await does('/title Early', 'The conversation has not begun yet.');
    await does('Hello', 'One.');
    await does('/title A greeting', '> ');
    talk.type(`/sessions${ENTER}`);
    await talk.shows(/\* +ses_\w+ +1 +idle .*A greeting/);
    await does('Again', 'Two.');
    await does('/export there.jsonl', 'EEXIST');
    await does('/export chat.jsonl', 'Wrote the conversation');
    await does('/fork 1', /Continuing after message 1 in ses_\w+/);
    await does('Otherwise', 'Two.');
    await does('/dance', 'There is no command /dance.');
    await does('/help', '/export FILE');
    await does('/exit', '');
    expect(await talk.ended).toBe(0);
    const [session, ...messages] = linesOf(readFileSync(join(cwd, 'chat.jsonl'), 'utf8'));
    expect(session).toMatchObject({ title: 'A greeting', messages: 2 });
    expect(messages).toMatchObject([{ number: 1 }, { number: 2, output: { result: 'Two.' } }]);
    expect(readFileSync(join(cwd, 'there.jsonl'), 'utf8')).toBe('mine');

    const later = chat('helper');
    await later.shows(/Continuing .* after 2 messages/);
    await later.shows('> Otherwise');
    await later.shows('Two.');
    await later.shows('> ');
    later.type(`More${ENTER}`);
    await later.shows('Three.');
    await later.shows('> ');
    later.type(`/new${ENTER}`);
    await later.shows('begins a new conversation');
    later.type(`Anew${ENTER}`);
    await later.shows('One.');
    later.type(CTRL_D);
    expect(await later.ended).toBe(0);
  });

  test('Ctrl-C stops an answer, discards a line, and leaves', async () => {
    const talk = chat('slow --new');
    await talk.shows('> ');
    talk.type(`Hi${ENTER}`);
    await talk.shows('slowly');
    talk.type(CTRL_C);
    await talk.shows('Stopping the run.');
    await talk.shows('Stopped.');
    await talk.shows('> ');
    talk.type(`half a line${CTRL_C}`);
    await talk.shows('> ');
    talk.type(CTRL_C);
    expect(await talk.ended).toBe(0);
  });

  test('approvals and questions are asked in their place', async () => {
    const teller = chat('teller --new');
    await teller.shows('> ');
    teller.type(`Pay${ENTER}`);
    await teller.shows('refund {"amount":250}');
    await teller.shows('approve?');
    teller.type(`y${ENTER}`);
    await teller.shows('Settled.');
    await teller.shows('> ');
    teller.type(CTRL_D);
    expect(await teller.ended).toBe(0);

    const asker = chat('asker --new');
    await asker.shows('> ');
    asker.type(`Ask me${ENTER}`);
    await asker.shows('Which colour?');
    await asker.shows('answer:');
    asker.type(`blue${ENTER}`);
    await asker.shows('Settled.');
    expect(target.llm.requests.at(-1)!.text).toContain('blue');
    asker.type(CTRL_D);
    expect(await asker.ended).toBe(0);
  });

  test('somebody else may decide meanwhile', async () => {
    const teller = chat('teller --new');
    await teller.shows('> ');
    teller.type(`Pay${ENTER}`);
    await teller.shows('approve?');
    const { approvals } = (await platform('approvals --status waiting')).json;
    expect((await platform(`approve ${approvals[0].id} --deny`)).status).toBe(0);
    await teller.shows('Settled.');
    await teller.shows('> ');
    teller.type(CTRL_D);
    expect(await teller.ended).toBe(0);
  });
});
