import { beforeAll, beforeEach, expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const HOSTILE = '<img src=x onerror=alert(1)> \u202egnp.exe';

describeSite('storage', (site) => {
  let workspace_id: string;
  const put = (namespace: string, key: string, body: object) =>
    site.client.putDocument({
      params: { namespace, key },
      body,
      headers: { 'x-workspace-id': workspace_id },
    } as never);
  const readValue = async (namespace: string, key: string) =>
    (
      await site.client.getDocument({
        params: { namespace, key },
        headers: { 'x-workspace-id': workspace_id },
      } as never)
    ).value;
  beforeAll(async () => {
    workspace_id = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
  });
  beforeEach(async () => {
    const act = { headers: { 'x-workspace-id': workspace_id } };
    for (const namespace of (await site.client.listNamespaces(act as never)).namespaces) {
      await site.client.deleteNamespace({ params: { namespace }, ...act } as never);
    }
  });

  test('a document is made, edited and deleted', async () => {
    const page = await site.open('/acme/storage');
    await page.getByText('No documents yet').waitFor();
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Namespace').fill('Notes');
    await page.getByText('lowercase letters').waitFor();
    await page.getByLabel('Namespace').fill('notes');
    await page.getByLabel('Key').fill('today');
    await page.getByRole('button', { name: 'Edit value' }).click();
    const editor = page.getByRole('textbox', { name: 'Value of the document' });
    await editor.fill('{"text": ');
    await page.getByText('This is not valid JSON').waitFor();
    expect(await page.getByRole('button', { name: 'Create document' }).isDisabled()).toBe(true);
    await editor.fill('"text"');
    await page.getByText('It must be a JSON object or array').waitFor();
    await editor.fill('{"text": "rain"}');
    await page.getByRole('button', { name: 'Create document' }).click();
    await page.getByText('Version 1 saved.').waitFor();
    expect(await readValue('notes', 'today')).toEqual({ text: 'rain' });
    await editor.fill('{"text": "sun"}');
    await page.keyboard.press('Control+Enter');
    await page.getByText('Version 2 saved.').waitFor();
    expect(await readValue('notes', 'today')).toEqual({ text: 'sun' });
    await page.getByRole('button', { name: 'Delete document' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete document' }).click();
    await page.getByText('This namespace is empty').waitFor();
    await expect(readValue('notes', 'today')).rejects.toThrow();
  });

  test('who edits what another wrote meanwhile sees both, and nothing is lost', async () => {
    await put('notes', 'shared', { from: 'the beginning' });
    const page = await site.open('/acme/storage/notes/shared');
    const editor = page.getByRole('textbox', { name: 'Value of the document' });
    await editor.getByText('the beginning').waitFor();
    await editor.fill('{"from": "me"}');
    await put('notes', 'shared', { from: 'another' });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Your changes are not saved yet').waitFor();
    await page.getByRole('textbox', { name: 'Theirs' }).getByText('another').waitFor();
    await page.getByRole('textbox', { name: 'Mine' }).getByText('me').waitFor();
    const difference = page.getByRole('region', { name: 'Your changes to the saved version' });
    await difference.getByText('"from": "another"').waitFor();
    await difference.getByText('"from": "me"').waitFor();
    expect(await readValue('notes', 'shared')).toEqual({ from: 'another' });
    // Waits until the announcement of the pending button is gone.
    await page.locator('[data-live-announcer] [role="img"]').first().waitFor({ state: 'detached' });
    await checkAccess(page, () => page.getByRole('textbox', { name: 'Mine' }).waitFor());
    // Another change while both versions are shown.
    await put('notes', 'shared', { from: 'a third' });
    await page.getByRole('button', { name: 'Overwrite version 2 with mine' }).click();
    await page.getByRole('textbox', { name: 'Theirs' }).getByText('a third').waitFor();
    await page.getByRole('textbox', { name: 'Mine' }).fill('{"from": "me and a third"}');
    await page.getByRole('button', { name: 'Overwrite version 3 with mine' }).click();
    await page.getByText('Version 4 saved.').waitFor();
    expect(await readValue('notes', 'shared')).toEqual({ from: 'me and a third' });

    await editor.fill('{"from": "me again"}');
    await put('notes', 'shared', { from: 'another again' });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Use theirs' }).click();
    await editor.getByText('another again').waitFor();
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    // A document that was deleted concurrently is not recreated without confirmation.
    await editor.fill('{"from": "me at last"}');
    await site.client.deleteNamespace({
      params: { namespace: 'notes' },
      headers: { 'x-workspace-id': workspace_id },
    } as never);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('This document does not exist.').waitFor();
    await page.getByRole('button', { name: 'Save mine' }).click();
    await page.getByText('Version 1 saved.').waitFor();
    expect(await readValue('notes', 'shared')).toEqual({ from: 'me at last' });
  });

  test('keys come by pages, are found by their beginning, and go with their namespace', async () => {
    for (let index = 0; index < 230; index++) await put('many', `key-${String(index).padStart(3, '0')}`, { index });
    await put('other', 'one', {});
    const page = await site.open('/acme/storage');
    await page.getByRole('link', { name: 'many' }).click();
    const keys = page.getByRole('table', { name: 'Keys' });
    const rows = keys.getByRole('row');
    // Only visible rows are rendered.
    await expect.poll(() => keys.getAttribute('aria-rowcount')).toBe('201');
    await page.getByRole('button', { name: 'Show more keys' }).click();
    await expect.poll(() => keys.getAttribute('aria-rowcount')).toBe('231');
    await page.getByLabel('Filter keys by prefix').fill('key-22');
    await expect.poll(() => rows.count()).toBe(11);
    expect(page.url()).toContain('q=key-22');
    await page.getByRole('button', { name: 'Delete namespace' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Delete namespace' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('many');
    await dialog.getByRole('button', { name: 'Delete namespace' }).click();
    await page.getByRole('link', { name: 'other' }).waitFor();
    await page.getByRole('link', { name: 'many' }).waitFor({ state: 'detached' });
  });

  test('a hostile document is text', async () => {
    await put('hostile', 'one', { [HOSTILE]: HOSTILE, long: 'x'.repeat(50_000) });
    const page = await site.open('/acme/storage/hostile/one');
    const editor = page.getByRole('textbox', { name: 'Value of the document' });
    await editor.getByText('<img src=x onerror=alert(1)>').first().waitFor();
    expect(await page.locator('main img[src]').count()).toBe(0);
    // The bidirectional override is shown as a visible character.
    expect(await editor.locator('.cm-specialChar').count()).toBeGreaterThan(0);
    expect(await editor.textContent()).not.toContain('\u202e');
  });

  test('a document that is not there is an error with its way back', async () => {
    const page = await site.open('/acme/storage/notes/nothing');
    await page.getByRole('alert').getByText('NOT_FOUND').waitFor();
    await page.getByRole('link', { name: 'notes', exact: true }).waitFor();
  });

  test.each([
    ['the namespaces', '', 'table'],
    ['the keys', '/notes', 'table'],
    ['a document', '/notes/today', 'textbox'],
  ] as const)('%s can be used by everybody', async (_, path, role) => {
    await put('notes', 'today', { text: 'rain', list: [1, true, null] });
    const page = await site.open(`/acme/storage${path}`);
    await checkAccess(page, () => page.locator('main').getByRole(role).first().waitFor());
  });
});
