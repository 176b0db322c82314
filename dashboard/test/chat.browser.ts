import type { Page } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { turnKey } from '../../core/runs/sessions/items.ts';
import type { ScriptedTurn } from '../../test/helpers/scripted-llm/turns.ts';
import { checkAccess, describeSite } from './browser.ts';

const TEXT = { type: 'object', required: ['message'], properties: { message: { type: 'string' } } };
const REFUND = {
  name: 'refund',
  description: 'Refunds an amount of an order, in dollars',
  command: 'echo refunded {{order}} {{amount}}',
  input_schema: {
    type: 'object',
    required: ['order', 'amount'],
    properties: { order: { type: 'string' }, amount: { type: 'number' } },
  },
  approval: { when: { properties: { amount: { exclusiveMinimum: 100 } } } },
};
const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const refund = (order: string, amount: number) => calls({ name: 'refund', input: { order, amount } });
const submit = (result: string) => calls({ name: 'submit_result', input: { result } });

const MARKDOWN = [
  '## Found',
  '',
  '| city | degrees |',
  '| --- | ---: |',
  '| Oslo | 3 |',
  '',
  '- a **bold** word',
  '- [a page](https://example.com/page)',
  '',
  '```',
  'const degrees = 3;',
  '```',
].join('\n');

const HOSTILE = [
  '<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script>',
  '[click](javascript:window.hacked=3) ![look](https://elsewhere.example/pixel.png)',
  '<iframe srcdoc="<script>parent.hacked = 4</script>"></iframe>',
  '[data](data:text/html,<script>hacked=5</script>) <svg onload="hacked=6">',
].join('\n\n');

/** An image of one pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

describeSite('chat', (site) => {
  let workspace_id: string;
  beforeAll(async () => {
    workspace_id = (await site.client.getSession({})).workspace.id;
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' };
    await site.client.putSecret({ params: { workspace_id }, body: secret });
    const prompt = { type: 'prompt', supported_providers: ['anthropic'], required_secrets: [] } as const;
    await site.client.createAgent({
      body: { ...prompt, name: 'helper', description: 'Helps', prompt: '{{message}}', input_schema: TEXT },
    });
  });
  beforeEach(() => site.target.llm.reset());
  afterEach(() => site.target.llm.reset());

  const openChat = (more = '', agent = 'helper') => site.open(`/acme/agents/${agent}/chat${more}`);
  const field = (page: Page) => page.getByRole('textbox', { name: 'Message' });
  const ask = async (page: Page, text: string) => {
    await field(page).fill(text);
    await field(page).press('Enter');
  };
  const message = (page: Page, number: number) =>
    page
      .getByRole('list', { name: 'Messages' })
      .locator(':scope > li')
      .nth(number - 1);
  const answered = (page: Page, number: number) =>
    message(page, number).getByRole('button', { name: 'Copy answer' }).waitFor();
  const sessionIn = (page: Page) => new URL(page.url()).searchParams.get('session')!;
  const list = (page: Page) => page.getByRole('navigation', { name: 'Chats' });

  test('a message is answered in Markdown as it comes, the next one has what was said, and the chat is listed', async () => {
    const { llm } = site.target;
    llm.queue({ text: MARKDOWN, chunkDelayMs: 20 });
    llm.queue({ text: 'You asked about Oslo.' });
    const page = await site.open('/acme/agents/helper');
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByText('What would you like to ask?').waitFor();
    await checkAccess(page, () => field(page).waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await field(page).fill('How is');
    await field(page).press('Shift+Enter');
    await page.keyboard.type('Oslo?');
    await field(page).press('Enter');
    await message(page, 1).getByText('How is\nOslo?').waitFor();
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.getByRole('heading', { name: 'Found' }).waitFor();
    await answered(page, 1);
    await page.getByRole('cell', { name: 'Oslo' }).waitFor();
    const link = page.getByRole('link', { name: 'a page' });
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer');
    await list(page)
      .getByRole('link', { name: /^How is Oslo\?/ })
      .waitFor();
    await message(page, 1).getByText(/^\$0/).waitFor();
    await ask(page, 'What did I ask?');
    await message(page, 2).getByText('You asked about Oslo.').waitFor();
    await answered(page, 2);
    expect(JSON.stringify(llm.requests.at(-1)!.body.messages)).toContain('const degrees = 3;');
    await checkAccess(page, () => answered(page, 2));

    await page.setViewportSize({ width: 1280, height: 800 });
    await page.reload();
    await message(page, 2).getByText('You asked about Oslo.').waitFor();
    expect(await page.getByRole('list', { name: 'Messages' }).locator(':scope > li').count()).toBe(2);
    await message(page, 2).getByRole('link', { name: 'Open run' }).click();
    await page.getByRole('heading', { name: /^Run / }).waitFor();
    await page.getByRole('link', { name: 'Open chat' }).click();
    await message(page, 2).getByText('You asked about Oslo.').waitFor();
  });

  test('an answer goes on after a reload in the middle', async () => {
    const words = Array.from({ length: 60 }, (_, index) => `word${index}`).join(' ');
    site.target.llm.queue({ text: words, chunkDelayMs: 150 });
    const page = await openChat();
    await ask(page, 'Count');
    await page.getByText('word0 word1').waitFor();
    await page.waitForURL(/session=/);
    await page.reload();
    await page.getByText('word0 word1').waitFor();
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.getByText('word59').waitFor();
    await answered(page, 1);
    expect(await page.getByText('word59').count()).toBe(1);
    expect(site.target.llm.requests).toHaveLength(1);
  });

  test('Esc stops an answer, and the chat goes on', async () => {
    site.target.llm.queue({ text: 'never', waitFor: 'nobody' });
    const page = await openChat();
    await ask(page, 'Wait');
    await page.waitForURL(/session=/);
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.getByText('Thinking…').or(page.getByText('Working…')).waitFor();
    await field(page).press('Escape');
    await message(page, 1).getByText('Cancelled').waitFor();
    site.target.llm.reset();
    site.target.llm.queue({ text: 'Here.' });
    await ask(page, 'Again');
    await message(page, 2).getByText('Here.').waitFor();
  });

  test('a message is edited and asked again in a chat of its own, and a chat is forked', async () => {
    for (const text of ['First.', 'Second.', 'Other.']) site.target.llm.queue({ text });
    const page = await openChat();
    await ask(page, 'One');
    await answered(page, 1);
    await ask(page, 'Two');
    await answered(page, 2);
    const original = sessionIn(page);
    await message(page, 2).getByRole('button', { name: 'Edit and ask again' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit and ask again' });
    await dialog.getByLabel('Message').fill('Two, but better');
    await dialog.getByRole('button', { name: 'Ask again' }).click();
    await message(page, 2).getByText('Other.').waitFor();
    await answered(page, 2);
    await message(page, 1).getByText('First.').waitFor();
    expect(sessionIn(page)).not.toBe(original);
    expect(JSON.stringify(site.target.llm.requests.at(-1)!.body.messages)).toContain('First.');
    await page.goto(site.at(`/acme/agents/helper/chat?session=${original}`));
    await message(page, 2).getByText('Second.').waitFor();
    await message(page, 1).getByRole('button', { name: 'Fork from here' }).click();
    await page.getByText('This is a new chat').waitFor();
    await message(page, 1).getByText('First.').waitFor();
    expect(await page.getByText('Second.').count()).toBe(0);
    await list(page)
      .getByRole('link', { name: /^One \(fork\)/ })
      .waitFor();
  });

  test('what an agent asks is decided in the chat, and its tools are shown', async () => {
    const turns = [refund('A-17', 250), submit('Refunded.')];
    const body = { type: 'agent', description: 'refunds', required_secrets: [], custom_tools: [REFUND] } as const;
    const prompt = `{{message}} [[llm ${JSON.stringify(turns)}]]`;
    const loop = { tools: ['ask_human'] };
    await site.client.createAgent({
      body: { ...body, name: 'teller', prompt, loop, input_schema: TEXT } as never,
    });
    const headers = { 'x-workspace-id': workspace_id };
    await site.client.updateOrg({ body: { trace_content: 'all' }, headers } as never);
    const page = await openChat('', 'teller');
    await ask(page, 'Refund A-17');
    const card = page.getByRole('article', { name: /^teller wants to call refund/ });
    await card.getByText('A-17').waitFor();
    await checkAccess(page, () => card.waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    // The card is there after a reload, too.
    await page.reload();
    await card.getByRole('button', { name: 'Approve', exact: true }).click();
    await message(page, 1).getByText('Refunded.').waitFor();
    await answered(page, 1);
    await message(page, 1).getByText('Steps').click();
    await message(page, 1).getByText('refund', { exact: true }).first().click();
    await message(page, 1).getByText('Arguments').first().waitFor();
    await message(page, 1).getByText('refunded A-17 250').waitFor();
    await checkAccess(page, () => answered(page, 1));
  });

  test('HTML and scripts of an answer stay text', async () => {
    site.target.llm.queue({ text: HOSTILE });
    const page = await openChat();
    await ask(page, '<b>bold</b> <script>hacked = 7</script>');
    await answered(page, 1);
    await message(page, 1).getByText('<iframe').waitFor();
    await page.getByText('<b>bold</b>').first().waitFor();
    expect(await page.evaluate('window.hacked')).toBeUndefined();
    const made = page
      .getByRole('list', { name: 'Messages' })
      .locator('img, script, iframe, a[href^="javascript"], a[href^="data"]');
    expect(await made.count()).toBe(0);
  });

  test('chats are found, renamed and deleted', async () => {
    const page = await openChat();
    await ask(page, 'Rename me');
    await answered(page, 1);
    const { session_id } = { session_id: sessionIn(page) };
    await list(page).getByRole('button', { name: 'Actions of Rename me' }).click();
    await page.getByRole('menuitem', { name: 'Rename' }).click();
    await page.getByLabel('Title').fill('A better name');
    await page.keyboard.press('Enter');
    const row = list(page).getByRole('link', { name: /^A better name/ });
    await row.waitFor();
    await page.getByLabel('Search chats').fill('nothing like it');
    await page.getByText('No chat matches.').waitFor();
    await page.getByLabel('Search chats').fill('BETTER');
    await row.waitFor();
    await list(page).getByRole('button', { name: 'Actions of A better name' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete chat' }).click();
    await row.waitFor({ state: 'detached' });
    await page.getByText('What would you like to ask?').waitFor();
    await page.goto(site.at(`/acme/agents/helper/chat?session=${session_id}`));
    await page.getByRole('alert').getByText('NOT_FOUND').waitFor();
  });

  test('a failure says why, and the message is asked again', async () => {
    site.target.llm.queue({ status: 400, message: 'Not today.' }, { text: 'Today.' });
    const page = await openChat();
    await ask(page, 'Now?');
    const failed = message(page, 1).getByRole('alert');
    await failed.getByText('LLM_ERROR').waitFor();
    await failed.getByRole('button', { name: 'Try again' }).click();
    await message(page, 2).getByText('Today.').waitFor();
  });

  test('a message that cannot be sent is kept, and sent when the platform answers again', async () => {
    const page = await site.open('/acme/agents/helper/chat', { expectedErrors: /ERR_INTERNET_DISCONNECTED/ });
    await ask(page, 'One');
    await answered(page, 1);
    await page.context().setOffline(true);
    await ask(page, 'Two');
    await page.getByRole('alert').getByText('The platform is not responding.').waitFor();
    await page.context().setOffline(false);
    await page.getByRole('button', { name: 'Try again' }).click();
    await answered(page, 2);
    await message(page, 2).getByText('Two').waitFor();
  });

  test('an agent with more than a text has a form', async () => {
    const prompt = { type: 'prompt', supported_providers: ['anthropic'], required_secrets: [] } as const;
    const properties = { city: { type: 'string', title: 'City' }, days: { type: 'integer', title: 'Days' } };
    const input_schema = { type: 'object', required: ['city', 'days'], properties };
    const body = { ...prompt, name: 'forecast', description: 'x', prompt: '{{city}} {{days}}', input_schema };
    await site.client.createAgent({ body });
    const page = await openChat('', 'forecast');
    await page.getByLabel(/^City/).fill('Oslo');
    await page.getByLabel(/^Days/).fill('3');
    await page.getByRole('button', { name: 'Send' }).click();
    await answered(page, 1);
    await message(page, 1).getByText('"Oslo"').waitFor();
    expect(JSON.stringify(site.target.llm.requests.at(-1)!.body.messages)).toContain('Oslo 3');
  });

  test('files go with a message', async () => {
    site.target.llm.queue({ look: true });
    const page = await openChat();
    await field(page).fill('What is this?');
    const file = { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(PNG, 'base64') };
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Add files' }).click(),
    ]);
    await chooser.setFiles(file);
    await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
    await page.getByRole('button', { name: 'Send' }).click();
    await message(page, 1).getByText('image/png 1x1').waitFor();
    await answered(page, 1);
    await list(page)
      .getByRole('link', { name: /^What is this/ })
      .waitFor();
  });

  test('a chat of a thousand messages opens with its newest ones, and older ones come when it is scrolled up', async () => {
    const { deps } = site.target;
    const opened = await site.client.openSession({
      params: { workspace_id },
      body: { agent: 'acme/helper', title: 'Long' },
    });
    const params = { workspace_id, session_id: opened.id };
    site.target.llm.queue({ text: MARKDOWN });
    await site.client.sendSessionMessage({ params, body: { text: 'Number' } });
    const first = (await deps.runs.get(turnKey(workspace_id, opened.id, 1)))!;
    const numbers = Array.from({ length: 999 }, (_, index) => index + 2);
    await Promise.all(
      numbers.map((number) => deps.runs.put({ ...first, ...turnKey(workspace_id, opened.id, number) })),
    );
    const page = await openChat();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await list(page).getByRole('link', { name: /^Long/ }).waitFor();
    const shown = page.getByRole('list', { name: 'Messages' }).locator(':scope > li');
    asked.length = 0;
    await list(page).getByRole('link', { name: /^Long/ }).click();
    await shown.nth(29).waitFor();
    expect(await shown.count()).toBe(30);
    expect(asked.filter((path) => path.endsWith('/messages'))).toHaveLength(1);
    // The end is in view.
    const box = page.getByRole('region', { name: 'Conversation' });
    const left = () => box.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
    await expect.poll(left).toBeLessThan(5);
    // What is read stays where it is when older messages come above it.
    await box.evaluate((element) => element.scrollTo(0, 100));
    await expect.poll(() => shown.count()).toBeGreaterThanOrEqual(60);
    const before = await left();
    expect(before).toBeGreaterThan(1_000);
    await box.evaluate((element) => element.scrollTo(0, 0));
    await expect.poll(() => shown.count()).toBeGreaterThanOrEqual(90);
    await page.getByRole('button', { name: 'Jump to end' }).click();
    await expect.poll(left).toBeLessThan(5);
  });
});
