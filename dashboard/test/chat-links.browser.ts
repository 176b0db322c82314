import { beforeAll, expect, test } from 'vitest';
import { checkAccess, describeSite, expectAccessible } from './browser.ts';

const GONE = 'This chat does not exist or has expired.';
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3))';

describeSite('chat links', (site) => {
  let workspace_id: string;
  beforeAll(async () => {
    const { client } = site;
    workspace_id = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    const turns = [{ text: `An answer with ${HOSTILE}` }, { text: 'The second answer.' }];
    const agent = {
      name: 'helper',
      type: 'prompt',
      description: 'Helps.',
      prompt: `Help with {{message}}. [[llm ${JSON.stringify(turns)}]]`,
      supported_providers: ['anthropic'],
      input_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
    };
    await client.createAgent({ body: agent, headers: { 'x-workspace-id': workspace_id } } as never);
  });

  const newLink = async (body: object) => {
    const made = await site.client.createChatLink({
      params: { workspace_id },
      body: { agent: 'acme/helper', ...body } as never,
    });
    return { ...made, path: new URL(made.url).pathname.replace('/dashboard', '') };
  };

  test('an owner makes a link, a visitor chats without an account, and the owner revokes it', async () => {
    const page = await site.open('/acme/agents/helper');
    await page.getByRole('button', { name: 'Share as chat' }).click();
    const dialog = page.getByRole('dialog', { name: 'Share as chat' });
    await dialog.getByLabel('Title').fill('Ask the helper');
    await dialog.getByLabel('Welcome').fill(`Welcome ${HOSTILE}`);
    await dialog.getByRole('button', { name: 'Create link' }).click();
    const link = (await dialog.locator('code').textContent())!;
    expect(link).toMatch(/^http:.*\/dashboard\/chat\/a[\w-]{43}$/);
    await dialog.getByRole('listitem').getByText('0 of 200 messages').waitFor();
    await expectAccessible(page);

    const guest = await site.open(new URL(link).pathname.replace('/dashboard', ''), { signedIn: false });
    await guest.getByRole('heading', { name: 'Ask the helper' }).waitFor();
    await guest.getByText('Welcome <img src=x').waitFor();
    await guest.getByRole('textbox', { name: 'Message' }).fill(`Hello ${HOSTILE}`);
    await guest.keyboard.press('Enter');
    const messages = guest.getByRole('list', { name: 'Messages' }).getByRole('listitem');
    await messages.first().getByText('An answer with').waitFor();
    // What visitors and models write is text.
    expect(await guest.locator('img, #page script').count()).toBe(0);
    expect(await guest.locator('a[href^="javascript"]').count()).toBe(0);
    await guest.getByRole('textbox', { name: 'Message' }).fill('And then?');
    await guest.getByRole('button', { name: 'Send' }).click();
    await messages.nth(1).getByText('And then?').waitFor();
    await expect.poll(() => guest.getByRole('button', { name: 'Copy answer' }).count()).toBe(2);
    const shown = await guest.evaluate<string>('document.documentElement.outerHTML');
    for (const word of ['acme', workspace_id, 'sk-made-up', 'claude', 'tokens']) expect(shown).not.toContain(word);
    await expectAccessible(guest);

    // The conversation is there after a reload, and only in this browser.
    await guest.reload();
    await messages.nth(1).getByText('And then?').waitFor();
    const other = await site.open(new URL(link).pathname.replace('/dashboard', ''), { signedIn: false });
    await other.getByText('Welcome').waitFor();
    expect(await other.getByText('And then?').count()).toBe(0);
    await guest.getByRole('button', { name: 'New chat' }).click();
    await guest.getByText('Welcome').waitFor();
    expect(await guest.getByText('And then?').count()).toBe(0);

    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await dialog.getByRole('listitem').waitFor({ state: 'detached' });
    await guest.reload();
    await guest.getByRole('alert').getByText(GONE).waitFor();
    await checkAccess(guest, () => guest.getByText(GONE).waitFor());
  });

  test('a form shows the fields of the input and one answer', async () => {
    const { path } = await newLink({ kind: 'form', title: 'A form' });
    const guest = await site.open(path, { signedIn: false });
    await guest.getByRole('heading', { name: 'A form' }).waitFor();
    await guest.getByRole('textbox', { name: 'message' }).fill('a question');
    await guest.getByRole('button', { name: 'Send' }).click();
    await guest.getByRole('heading', { name: 'Answer' }).waitFor();
    await guest.getByText('An answer with <img').first().waitFor();
    expect(await guest.locator('img').count()).toBe(0);
    await checkAccess(guest, () => guest.getByRole('button', { name: 'Send' }).waitFor());
  });

  test('the page fits four widths, suggests messages, and says when the limit is reached', async () => {
    const { path } = await newLink({ suggestions: ['What can you do?'], max_messages_per_day: 1 });
    const guest = await site.open(path, { signedIn: false });
    for (const width of [320, 390, 768, 1440]) {
      await guest.setViewportSize({ width, height: 800 });
      expect(await guest.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    }
    await guest.getByRole('button', { name: 'What can you do?' }).click();
    await guest.getByRole('button', { name: 'Copy answer' }).waitFor();
    await guest.getByRole('textbox', { name: 'Message' }).fill('More');
    await guest.keyboard.press('Enter');
    await guest.getByText('This chat has reached its limit for today').waitFor();
  });

  test('members see the links, and only owners make and revoke them', async () => {
    const member = await site.target.addUser(`member-${crypto.randomUUID().slice(0, 6)}`);
    await site.target.addMember(member, workspace_id);
    await newLink({});
    const page = await site.open('/login', { signedIn: false });
    await page.getByLabel('API key').fill(member.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    await page.goto(site.at('/acme/agents/helper'));
    await page.getByRole('button', { name: 'Share as chat' }).click();
    const dialog = page.getByRole('dialog', { name: 'Share as chat' });
    await dialog.getByText('Only owners of the workspace can create and revoke links.').waitFor();
    expect(await dialog.getByRole('button', { name: 'Create link' }).isDisabled()).toBe(true);
    expect(await dialog.getByRole('button', { name: 'Revoke' }).count()).toBe(0);
  });
});
