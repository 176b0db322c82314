import { expect, test } from 'vitest';
import { clientOf } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('the settings of a workspace', (site) => {
  test('a key is shown once, closes when it was copied, and is revoked', async () => {
    const page = await site.open('/acme/settings/keys');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Create API key' }).click();
    await page.getByLabel('Name').fill('from the browser');
    await page.getByRole('button', { name: 'Create key' }).click();
    const dialog = page.getByRole('dialog', { name: 'Your new API key' });
    const key = (await dialog.locator('code').textContent())!;
    expect(key).toMatch(/^sk_live_/);
    await page.keyboard.press('Escape');
    await dialog.waitFor();
    expect(await dialog.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Copy' }).click();
    await dialog.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('cell', { name: 'from the browser', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(key);
    const own = () => fetch(`${site.target.url}/users/me`, { headers: { authorization: `Bearer ${key}` } });
    expect((await own()).status).toBe(200);
    await page.getByRole('button', { name: 'Revoke from the browser' }).click();
    await page.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByRole('cell', { name: 'from the browser', exact: true }).waitFor({ state: 'detached' });
    expect((await own()).status).toBe(401);
  });

  test('a secret is set, never shown, and deleted; the audit log has both', async () => {
    const page = await site.open('/acme/settings/secrets');
    await page.getByRole('button', { name: 'Set secret' }).click();
    const value = 'a-value-that-nobody-sees';
    await page.getByLabel('Name').fill('browser token');
    await page.getByLabel('Value').fill(value);
    await page.getByRole('dialog').getByRole('button', { name: 'Set secret' }).click();
    await page.getByRole('cell', { name: 'BROWSER_TOKEN', exact: true }).waitFor();
    await page.reload();
    await page.getByRole('cell', { name: 'BROWSER_TOKEN', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(value);
    await page.getByRole('button', { name: 'Delete BROWSER_TOKEN' }).click();
    await page.getByRole('button', { name: 'Delete secret' }).click();
    await page.getByRole('cell', { name: 'BROWSER_TOKEN', exact: true }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Audit log' }).click();
    await page.getByRole('cell', { name: 'Delete secret', exact: true }).first().waitFor();
    await page.getByRole('cell', { name: 'Put secret', exact: true }).first().waitFor();
    expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(value);
  });

  test('a provider is set up, with a key that is never shown, and deleted', async () => {
    const page = await site.open('/acme/settings/providers');
    await page.getByRole('button', { name: 'Set up provider' }).click();
    const dialog = page.getByRole('dialog', { name: 'Set up a provider' });
    const submit = dialog.getByRole('button', { name: 'Set up provider' });
    await dialog.getByRole('button', { name: /Provider/ }).click();
    await page.getByRole('option', { name: 'Another' }).click();
    await dialog.getByLabel('Name').fill('Own Server');
    expect(await submit.isDisabled()).toBe(true);
    await dialog.getByLabel('Address').fill('http://models.example.com/v1');
    const key = 'a-key-that-nobody-sees';
    await dialog.getByLabel('Key').fill(key);
    await dialog.getByLabel('Default model').fill('big-model');
    await dialog.getByLabel('Prices').fill('[1]');
    await dialog.getByText('It must be a JSON object').waitFor();
    expect(await submit.isDisabled()).toBe(true);
    await dialog.getByLabel('Prices').fill('{"big-model": {"input": 1, "output": 2}}');
    await submit.click();
    await dialog.getByRole('alert').getByText('base_url of the provider "own-server"').waitFor();
    await dialog.getByLabel('Address').fill('https://models.example.com/v1');
    await submit.click();
    const row = page.getByRole('row').filter({ hasText: 'openai-compatible:own-server' });
    await row.getByText('big-model').waitFor();
    await page.reload();
    await row.getByText('saved').waitFor();
    expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(key);
    await page.getByRole('button', { name: 'Delete own-server' }).click();
    await page.getByRole('button', { name: 'Delete provider' }).click();
    await row.waitFor({ state: 'detached' });
  });

  test('a destination is added, tested, changed and deleted', async () => {
    const page = await site.open('/acme/settings/destinations');
    await page.getByRole('button', { name: 'Add destination' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add a destination' });
    const submit = dialog.getByRole('button', { name: 'Add destination' });
    expect(await submit.isDisabled()).toBe(true);
    await dialog.getByLabel('Address').fill('http://hooks.example.com/runs');
    await dialog.getByLabel('All events').uncheck();
    expect(await submit.isDisabled()).toBe(true);
    await dialog.getByLabel('Failed runs').check();
    await dialog.getByLabel('Requested approvals').check();
    await checkAccess(page, () => dialog.getByLabel('Expired approvals').waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await dialog.getByLabel('Agents').fill('acme/one, acme/two');
    await submit.click();
    await dialog.getByRole('alert').getByText('must begin with https://').waitFor();
    // No resolver knows this name.
    const url = 'https://hooks.example.invalid/runs';
    await dialog.getByLabel('Address').fill(url);
    await submit.click();
    const row = page.getByRole('row').filter({ hasText: url });
    await row.getByText('acme/one, acme/two').waitFor();
    await row.getByText('Failed runs, Requested approvals').waitFor();
    await row.getByRole('button', { name: `Test ${url}` }).click();
    await page.getByText('The test message was not accepted').first().waitFor();
    await row.getByRole('button', { name: `Log of ${url}` }).click();
    const log = page.getByRole('dialog', { name: 'Deliveries of the last seven days' });
    await log.getByRole('cell', { name: 'Failed' }).waitFor();
    await log.getByRole('button', { name: 'Close' }).click();
    await row.getByRole('button', { name: `Change ${url}` }).click();
    const change = page.getByRole('dialog', { name: 'Change the destination' });
    expect(await change.getByRole('group', { name: 'Events' }).getByRole('checkbox', { checked: true }).count()).toBe(
      2,
    );
    await change.getByLabel('Failed runs').uncheck();
    await change.getByLabel('Enabled').uncheck();
    await change.getByRole('button', { name: 'Save changes' }).click();
    await row.getByText('Off', { exact: true }).waitFor();
    await row.getByText('Requested approvals', { exact: true }).waitFor();
    await row.getByRole('button', { name: `Delete ${url}` }).click();
    await page.getByRole('button', { name: 'Delete destination' }).click();
    await row.waitFor({ state: 'detached' });
  });

  test('a destination without chosen events gets all of them, or the ends that its statuses name', async () => {
    const { id: workspace_id } = (await site.client.getSession({})).workspace;
    const url = 'https://hooks.example.invalid/all';
    const add = async (body: object) =>
      (await site.client.createDestination({ params: { workspace_id }, body } as never)).destination.id;
    const [all, ends] = [await add({ url }), await add({ url: `${url}/ends`, statuses: ['failed'] })];
    const page = await site.open('/acme/settings/destinations');
    await page
      .getByRole('row')
      .filter({ hasText: `${url}/ends` })
      .getByText('All ends of runs')
      .waitFor();
    await page.getByRole('row').getByText('All events', { exact: true }).waitFor();
    await page.getByRole('button', { name: `Change ${url}`, exact: true }).click();
    const change = page.getByRole('dialog', { name: 'Change the destination' });
    expect(await change.getByLabel('All events').isChecked()).toBe(true);
    await change.getByLabel('Agents').fill('acme/one');
    await change.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('row').getByText('acme/one').waitFor();
    const params = { workspace_id, destination_id: all };
    const { events, agents } = (await site.client.getDestination({ params })).destination;
    expect({ events, agents }).toEqual({ events: [], agents: ['acme/one'] });
    for (const destination_id of [all, ends]) {
      await site.client.deleteDestination({ params: { workspace_id, destination_id } });
    }
  });

  test('the signing secret is shown once', async () => {
    const page = await site.open('/acme/settings/signing');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Rotate secret' }).click();
    await page.getByRole('button', { name: 'Rotate now' }).click();
    const dialog = page.getByRole('dialog', { name: 'The signing secret' });
    const secret = (await dialog.locator('code').textContent())!;
    expect(secret).toMatch(/^whsec_/);
    await dialog.getByRole('button', { name: 'Copy' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(secret);
  });

  test('secrets and rights are granted to an agent of another workspace, and taken back', async () => {
    const { id: workspace_id } = (await site.client.getSession({})).workspace;
    await site.client.putSecret({ params: { workspace_id }, body: { name: 'GRANTED', value: 'x' } });
    const slug = `other-${crypto.randomUUID().slice(0, 6)}`;
    const other = clientOf(site.target, (await site.target.addUser(slug)).key);
    await other.createAgent({
      body: {
        name: 'triage',
        type: 'prompt',
        description: 'x',
        prompt: '{{text}}',
        supported_providers: ['anthropic'],
        is_public: true,
      },
    } as never);
    const page = await site.open('/acme/settings/grants');
    await page.getByRole('button', { name: 'Grant', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Agent').fill(`${slug}/triage`);
    await dialog.getByText('GRANTED').click();
    await dialog.getByText('Read and change tasks').click();
    await dialog.getByLabel('Connects to').fill('DB.example.com:5432, 10.0.0.5:6379');
    await dialog.getByRole('button', { name: 'Grant', exact: true }).click();
    await dialog.getByRole('alert').getByText('must have a name instead of an address').waitFor();
    await dialog.getByLabel('Connects to').fill('DB.example.com:5432');
    await dialog.getByRole('button', { name: 'Grant', exact: true }).click();
    const row = page.getByRole('row').filter({ hasText: `${slug}/triage@v1` });
    await row.getByText('GRANTED').waitFor();
    await row.getByText('tasks').waitFor();
    await row.getByText('db.example.com:5432').waitFor();
    await row.getByRole('button', { name: /^Change/ }).click();
    await dialog.getByText('GRANTED').click();
    await dialog.getByRole('button', { name: 'Save grant' }).click();
    await row.getByText('GRANTED').waitFor({ state: 'detached' });
    await row.getByRole('button', { name: /^Revoke/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await row.waitFor({ state: 'detached' });
  });

  test.each([
    ['grants', 'Grants'],
    ['signing', 'Signing'],
    ['keys', 'API keys'],
    ['secrets', 'Secrets'],
    ['providers', 'Providers'],
    ['destinations', 'Destinations'],
    ['audit', 'Audit log'],
  ])('%s can be used by everybody', async (part, title) => {
    const page = await site.open(`/acme/settings/${part}`);
    await checkAccess(page, () => page.getByRole('heading', { name: title, exact: true }).waitFor());
  });
});
