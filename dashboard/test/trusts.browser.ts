import { expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('publishing from CI', (site) => {
  test('a trust in a repository is added and deleted', async () => {
    const page = await site.open('/acme/settings/trusts');
    await page.getByText('No trusts').waitFor();
    await page.getByRole('button', { name: 'Add trust' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add a trust' });
    const submit = dialog.getByRole('button', { name: 'Add trust' });
    expect(await submit.isDisabled()).toBe(true);
    await checkAccess(page, () => dialog.getByLabel('Environment').waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await dialog.getByLabel('Repository', { exact: true }).fill('agents');
    await submit.click();
    await dialog.getByRole('alert').getByText('must be owner/name').waitFor();
    await dialog.getByLabel('Repository', { exact: true }).fill('acme/agents');
    await dialog.getByLabel('Number of the repository').fill('1296269');
    await dialog.getByLabel('Agents').fill('triage, report');
    await submit.click();
    const row = page.getByRole('row').filter({ hasText: 'repository: acme/agents' });
    await row.getByText('ref: refs/heads/main').waitFor();
    await row.getByText('repository_id: 1296269').waitFor();
    await row.getByText('triage, report').waitFor();
    await row.getByText('Never').waitFor();
    await page.reload();
    await row.getByRole('button', { name: 'Delete acme/agents' }).click();
    await page.getByRole('button', { name: 'Delete trust' }).click();
    await row.waitFor({ state: 'detached' });
    const { id } = await site.client.getOrg({});
    expect(await site.client.listTrusts({ params: { workspace_id: id } })).toEqual({ trusts: [] });
  });

  test('another issuer is trusted by its claims', async () => {
    const page = await site.open('/acme/settings/trusts');
    await page.getByRole('button', { name: 'Add trust' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add a trust' });
    await dialog.getByRole('button', { name: /CI system/ }).click();
    await page.getByRole('option', { name: 'Another' }).click();
    await dialog.getByLabel('Issuer').fill('https://gitlab.com');
    const submit = dialog.getByRole('button', { name: 'Add trust' });
    await dialog.getByLabel('Claims').fill('project_path acme/agents');
    expect(await submit.isDisabled()).toBe(true);
    await dialog.getByLabel('Claims').fill('project_path: acme/agents\nref: release-*\n');
    await submit.click();
    const row = page.getByRole('row').filter({ hasText: 'project_path: acme/agents' });
    await row.getByText('ref: release-*').waitFor();
    await row.getByText('gitlab.com').waitFor();
  });

  test('the audit log says that a job was refused, and why', async () => {
    const json = { workspace: 'acme', token: 'a.b.c' };
    expect(await request(site.target, 'POST', '/auth/trusts/token', { json })).toMatchObject({ status: 401 });
    const page = await site.open('/acme/settings/audit');
    const row = page.getByRole('row').filter({ hasText: 'Exchange trust token' });
    await row.getByText('CI job').waitFor();
    await row.getByText('reason: it is not a signed JSON Web Token').waitFor();
  });

  test('a member sees no trusts', async () => {
    const member = await site.target.addUser('member');
    const { id } = await site.client.getOrg({});
    await site.target.addMember(member, id);
    const page = await site.open('/acme/settings/trusts', { signedIn: false });
    const form = { api_key: member.key };
    const headers = { 'x-platform-client': 'dashboard' };
    const signedIn = await page.request.post(`${site.target.url}/auth/session`, { data: form, headers });
    expect(signedIn.status()).toBe(201);
    await page.goto(site.at('/acme/settings/trusts'));
    await page.getByText('Only workspace owners can view and change trusts.').waitFor();
    expect(await page.getByRole('button', { name: 'Add trust' }).count()).toBe(0);
  });
});
