import { beforeAll, expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const TITLE = '<img src=x onerror=alert(1)> [link](javascript:alert(1))';
const BODY = '<img src=y onerror=alert(2)> \u202egnp.exe';
const SHOWN_BODY = '<img src=y onerror=alert(2)> \\u{202e}gnp.exe';

describeSite('messages', (site) => {
  let workspace_id: string;
  const send = async (title: string, more: object = {}) =>
    (
      await site.client.sendMessage({
        body: { title, body: `About ${title}`, ...more },
        headers: { 'x-workspace-id': workspace_id },
      } as never)
    ).id;
  beforeAll(async () => {
    workspace_id = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
  });

  test('a message arrives live, is read, filtered and deleted with an undo', async () => {
    for (const { id: message_id } of (await site.client.listWorkspaceMessages({ params: { workspace_id } })).messages) {
      await site.client.deleteMessage({ params: { message_id }, headers: { 'x-workspace-id': workspace_id } } as never);
    }
    const page = await site.open('/acme/messages');
    await page.getByText('No messages').waitFor();
    await page.getByRole('status').getByText('Live').waitFor();
    const id = await send('Report ready', { agent_name: 'reporter', level: 'success', metadata: { pages: 3 } });
    await send(TITLE, { body: `${BODY}\n${'long '.repeat(500)}the end`, level: 'error' });
    await page.getByRole('button', { name: '2 new' }).click();
    const entry = (title: string) =>
      page.getByRole('list', { name: 'Messages' }).getByRole('listitem').filter({ hasText: title });
    await entry('Report ready').getByText('New').waitFor();
    // Markup is shown as text, and a long text expands on request.
    await entry(TITLE).getByRole('button', { name: 'Show all' }).click();
    await entry(TITLE).getByText('the end').waitFor();
    await entry(TITLE).getByText(SHOWN_BODY).waitFor();
    expect(await page.locator('main img').count()).toBe(0);
    expect(await entry(TITLE).getByRole('link').count()).toBe(0);
    await entry('Report ready').getByRole('button', { name: 'Show all' }).click();
    await entry('Report ready').getByText('pages:').waitFor();
    // Messages that were read are no longer counted.
    const unread = async () =>
      (await site.client.getOverview({})).workspaces.find(({ slug }) => slug === 'acme')!.unread_messages.count;
    await expect.poll(unread).toBe(0);

    await page.getByRole('button', { name: /Level/ }).click();
    await page.getByRole('option', { name: 'success' }).click();
    await entry(TITLE).waitFor({ state: 'detached' });
    expect(page.url()).toContain('level=success');
    await page.reload();
    await entry('Report ready').waitFor();
    expect(await entry('Report ready').getByText('New').count()).toBe(0);
    await page.getByRole('button', { name: 'Delete Report ready' }).click();
    await page.getByText('No message matches these filters').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('button', { name: 'Delete Report ready' }).click();
    await page.getByText('No message matches these filters').waitFor();
    const found = async () =>
      (await site.client.listWorkspaceMessages({ params: { workspace_id } })).messages.some((each) => each.id === id);
    await expect.poll(found, { timeout: 20_000 }).toBe(false);
  });

  test('older messages come by pages', async () => {
    for (let index = 0; index < 60; index++) await send(`message ${index}`);
    const page = await site.open('/acme/messages');
    const items = page.getByRole('list', { name: 'Messages' }).getByRole('listitem');
    await expect.poll(() => items.count()).toBe(50);
    await page.getByRole('button', { name: 'Show older messages' }).click();
    await expect.poll(() => items.count()).toBeGreaterThanOrEqual(60);
  });

  test('the inbox can be used by everybody', async () => {
    for (const level of ['info', 'success', 'warning', 'error']) {
      await send(`a ${level}`, { level, agent_name: 'reporter', metadata: { a: 1 } });
    }
    const page = await site.open('/acme/messages?agent=reporter');
    await checkAccess(page, () => page.getByText('a warning', { exact: true }).first().waitFor());
  });
});
