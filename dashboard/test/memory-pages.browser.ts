import { beforeAll, beforeEach, expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const HOSTILE = '<img src=x onerror=alert(1)> \u202egnp.exe';

describeSite('memory', (site) => {
  let workspace_id: string;
  const put = (document: string, text: string, tenant_id?: string) =>
    site.client.putMemory({ params: { workspace_id, document }, query: { tenant_id }, body: { text } });
  const read = async (document: string, tenant_id?: string) =>
    (await site.client.getMemory({ params: { workspace_id, document }, query: { tenant_id } })).text;
  beforeAll(async () => {
    workspace_id = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
  });
  beforeEach(async () => {
    const params = { workspace_id };
    const { tenants } = await site.client.listMemoryTenants({ params, query: {} });
    for (const tenant_id of [undefined, ...tenants.map((each) => each.tenant_id)]) {
      await site.client.eraseMemory({ params, query: { tenant_id } });
    }
  });

  test('a document is made, changed and deleted', async () => {
    const page = await site.open('/acme/memory');
    await page.getByText('Nothing remembered yet').waitFor();
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Name', { exact: true }).fill('guests/../ann');
    await page.getByText('in parts joined by slashes').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('guests/ann.md');
    await page.getByRole('button', { name: 'Edit text' }).click();
    const editor = page.getByRole('textbox', { name: 'Text' });
    await editor.fill(HOSTILE);
    await page.getByRole('button', { name: 'Create document' }).click();
    await page.getByText('Version 1 saved.').waitFor();
    expect(await read('guests/ann.md')).toBe(HOSTILE);
    await editor.fill('Prefers mail.');
    await page.keyboard.press('Control+Enter');
    await page.getByText('Version 2 saved.').waitFor();
    expect(await read('guests/ann.md')).toBe('Prefers mail.');
    await page.getByRole('button', { name: 'Delete document' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete document' }).click();
    await page.getByText('Nothing remembered yet').waitFor();
    await expect(read('guests/ann.md')).rejects.toThrow();
  });

  test('what an agent wrote meanwhile is not lost', async () => {
    await put('shared.md', 'begin');
    const page = await site.open('/acme/memory/shared.md');
    const editor = page.getByRole('textbox', { name: 'Text' });
    await expect.poll(() => editor.inputValue()).toBe('begin');
    await checkAccess(page, () => editor.waitFor());
    await editor.fill('mine');
    await put('shared.md', 'of an agent');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('was changed while you edited it').waitFor();
    expect(await read('shared.md')).toBe('of an agent');
    await page.getByRole('button', { name: 'Drop mine' }).click();
    await page.reload();
    await expect.poll(() => editor.inputValue()).toBe('of an agent');
  });

  test('the memory of a tenant is chosen, and erased', async () => {
    await put('of-workspace.md', 'w');
    await put('a/of-ann.md', 'a', 'ann');
    const page = await site.open('/acme/memory');
    await page.getByRole('link', { name: 'of-workspace.md' }).waitFor();
    await page.getByRole('button', { name: /Whose memory/ }).click();
    await page.getByRole('option', { name: 'Tenant ann' }).click();
    await page.getByRole('link', { name: 'a/of-ann.md' }).waitFor();
    expect(await page.getByRole('link', { name: 'of-workspace.md' }).count()).toBe(0);
    await checkAccess(page, () => page.getByRole('link', { name: 'a/of-ann.md' }).waitFor());
    await page.getByRole('link', { name: 'a/of-ann.md' }).click();
    await page.getByText('Memory of the tenant ann').click();
    await page.getByRole('button', { name: 'Erase memory' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('ann');
    await dialog.getByRole('button', { name: 'Erase memory' }).click();
    await page.getByRole('link', { name: 'of-workspace.md' }).waitFor();
    await expect(read('a/of-ann.md', 'ann')).rejects.toThrow();
    expect(await read('of-workspace.md')).toBe('w');
  });
});
