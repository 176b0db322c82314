import { expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

describeSite('people of a workspace', (site) => {
  test('who is invited joins as a new user, is made an owner and removed', async () => {
    const page = await site.open('/acme/settings/members');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Invite a person' }).click();
    await page.getByLabel('Email').fill('ann@example.com');
    await page.getByRole('button', { name: 'Create invitation' }).click();
    const dialog = page.getByRole('dialog', { name: 'Invitation created' });
    const link = (await dialog.locator('code').textContent())!;
    expect(link).toMatch(/^http:.*\/dashboard\/invites\/a[\w-]{43}$/);
    await dialog.getByRole('button', { name: 'Copy' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('table', { name: 'Pending invitations' }).getByText('ann@example.com').waitFor();

    const path = new URL(link).pathname.replace('/dashboard', '');
    const guest = await site.open(path, { signedIn: false });
    await guest.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await checkAccess(guest, () => guest.getByLabel('Your name').waitFor());
    await guest.getByLabel('Your name').fill('Ann');
    await guest.getByRole('button', { name: /^Join/ }).click();
    const shown = guest.getByRole('dialog', { name: 'Your API key' });
    const key = (await shown.locator('code').textContent())!;
    expect(key).toMatch(/^sk_live_/);
    await shown.getByRole('button', { name: 'Copy' }).click();
    await shown.getByRole('button', { name: 'Done' }).click();
    await guest.waitForURL('**/dashboard/acme');
    await guest.goto(site.at('/acme/settings/members'));
    await guest.getByRole('cell', { name: /^Ann \(you\)/ }).waitFor();
    expect(await guest.evaluate('document.documentElement.outerHTML')).not.toContain(key);
    expect(await guest.getByRole('button', { name: 'Invite a person' }).count()).toBe(0);

    await page.reload();
    const row = page.getByRole('row').filter({ hasText: 'ann@example.com' });
    await row.getByText('Member', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Actions for Ann' }).click();
    await page.getByRole('menuitem', { name: 'Make owner' }).click();
    await row.getByText('Owner', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Actions for Ann' }).click();
    await page.getByRole('menuitem', { name: 'Remove from workspace' }).click();
    await page.getByRole('button', { name: 'Remove member' }).click();
    await row.waitFor({ state: 'detached' });
    await guest.reload();
    await guest.getByRole('heading', { name: 'Workspace not found' }).waitFor();

    await guest.goto(link);
    await guest.getByText('This invitation does not exist').waitFor();
  });

  test('who is a user accepts an invitation, and leaves; another one is revoked', async () => {
    const { workspaces } = await site.client.listWorkspaces({});
    const workspace_id = workspaces.find(({ slug }) => slug === 'acme')!.id;
    const user = await site.target.addUser(`bob-${crypto.randomUUID().slice(0, 6)}`);
    const invited = async (email: string) => {
      const { invite } = await site.client.createInvite({ params: { workspace_id }, body: { email, role: 'member' } });
      return `/invites/${invite.invite_url.split('/').at(-1)}`;
    };
    const page = await site.open(await invited('bob@example.com'), { signedIn: false });
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.getByLabel('API key').fill(user.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('You are signed in as').waitFor();
    // The reload clears the announcement of the sign-in button.
    await page.reload();
    await checkAccess(page, () => page.getByText('You are signed in as').waitFor());
    await page.getByRole('button', { name: /^Join/ }).click();
    await page.waitForURL('**/dashboard/acme');
    await page.goto(site.at('/acme/settings/members'));
    await page.getByRole('button', { name: /^Actions for/ }).click();
    await page.getByRole('menuitem', { name: 'Leave workspace' }).click();
    await page.getByRole('button', { name: 'Leave workspace' }).click();
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    await expect.poll(() => page.getByRole('link', { name: 'acme' }).count()).toBe(0);

    const revoked = await invited('eve@example.com');
    const owner = await site.open('/acme/settings/members');
    await owner.getByRole('button', { name: 'Revoke invitation of eve@example.com' }).click();
    await owner.getByText('eve@example.com').waitFor({ state: 'detached' });
    const guest = await site.open(revoked, { signedIn: false });
    await guest.getByText('This invitation does not exist').waitFor();
  });

  test('the name, the time zone, the content of traces and who decides are changed', async () => {
    const page = await site.open('/acme/settings');
    await page.waitForURL('**/acme/settings/general');
    await page.getByLabel('Name').fill('Acme works');
    await page.getByLabel('Time zone').fill('Mars/Olympus');
    await page.getByRole('button', { name: 'Save settings' }).click();
    await page.getByText('Mars/Olympus').waitFor();
    expect((await site.client.getOrg({})).name).not.toBe('Acme works');
    await page.getByLabel('Time zone').fill('Europe/Berlin');
    await page.getByRole('button', { name: /Trace content/ }).click();
    await page.getByRole('option', { name: 'Failed runs only' }).click();
    await page.getByRole('button', { name: /Approvals are decided by/ }).click();
    await page.getByRole('option', { name: 'Owners only' }).click();
    await page.getByRole('button', { name: 'Save settings' }).click();
    await page.getByText('Settings saved').waitFor();
    expect(await site.client.getOrg({})).toMatchObject({
      name: 'Acme works',
      timezone: 'Europe/Berlin',
      trace_content: 'errors',
      approvers: 'owners',
    });
    await page.getByRole('button', { name: 'Acme works Switch workspace' }).waitFor();

    const { id: workspace_id } = (await site.client.getSession({})).workspace;
    const member = await site.target.addUser(`cy-${crypto.randomUUID().slice(0, 6)}`);
    await site.target.addMember(member, workspace_id);
    const reader = await site.open('/login', { signedIn: false });
    await reader.getByLabel('API key').fill(member.key);
    await reader.getByRole('button', { name: 'Sign in' }).click();
    await reader.waitForURL('**/dashboard/**');
    await reader.goto(site.at('/acme/settings/general'));
    await reader.getByText('Owners only').waitFor();
    expect(await reader.getByRole('button', { name: 'Save settings' }).count()).toBe(0);
    await checkAccess(reader, () => reader.getByText('Approvals are decided by').waitFor());
  });

  test.each([
    ['general', 'Save settings'],
    ['members', 'Invite a person'],
  ])('%s can be used by everybody', async (part, action) => {
    const page = await site.open(`/acme/settings/${part}`);
    await checkAccess(page, () => page.getByRole('button', { name: action }).waitFor());
  });
});
