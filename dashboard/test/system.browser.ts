import { expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const SETTINGS = {
  PLATFORM_OIDC_ISSUER: 'https://id.example.com',
  PLATFORM_OIDC_CLIENT_ID: 'platform',
  PLATFORM_OIDC_CLIENT_SECRET: 'made-up',
};

describeSite(
  'the pages of no workspace',
  (site) => {
    test('the system page shows parts and process on this machine', async () => {
      const page = await site.open('/system');
      await page.getByRole('row').filter({ hasText: 'Database' }).getByText('Operational').waitFor();
      await page.getByText('Event loop delay').waitFor();
      expect(await page.getByRole('link', { name: 'For Prometheus' }).getAttribute('href')).toBe(
        `${site.target.url}/metrics`,
      );
      await checkAccess(page, () => page.getByText('Event loop delay').waitFor());
      await page.setViewportSize({ width: 320, height: 800 });
      await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
    });

    test('from elsewhere the key of the operator shows the process, also after a wrong one, and is not kept', async () => {
      const page = await site.open('/system', { extraHTTPHeaders: { 'x-forwarded-for': '203.0.113.1' } });
      const key = page.getByLabel("Operator's key");
      await key.fill('x'.repeat(32));
      await key.press('Enter');
      await page.getByText("This is not this platform's operator key").waitFor();
      await checkAccess(page, () => key.waitFor());
      await page.setViewportSize({ width: 320, height: 800 });
      await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
      await page.setViewportSize({ width: 1280, height: 800 });
      await key.fill(site.target.operatorKey);
      await page.getByText("This is not this platform's operator key").waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Show more' }).click();
      await page.getByText('Event loop delay').waitFor();
      // The focus moves to the content that replaced the form.
      expect(await page.evaluate('document.activeElement.textContent')).toContain('Event loop delay');
      const kept = await page.evaluate(
        'JSON.stringify([location.href, document.cookie, document.body.outerHTML, { ...localStorage }, { ...sessionStorage }])',
      );
      expect(kept).not.toContain(site.target.operatorKey);
      await page.getByRole('link', { name: 'Workspaces', exact: true }).click();
      await page.getByRole('heading', { level: 1, name: 'Workspaces' }).waitFor();
      await page.goBack();
      await key.waitFor();
    });

    test('the start page shows all workspaces with what goes on in them, and makes one', async () => {
      const { id: workspace_id } = (await site.client.getSession({})).workspace;
      await site.client.sendMessage({ body: { title: 'Look', body: 'x' } } as never);
      expect((await site.client.listWorkspaceMessages({ params: { workspace_id } })).total).toBeGreaterThan(0);
      const page = await site.open('/');
      const card = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'acme', exact: true }) });
      await card.getByText('Unread messages').waitFor();
      await card
        .getByText(/^[1-9]/)
        .first()
        .waitFor();
      await page.getByRole('button', { name: 'Create workspace' }).click();
      const name = `A workspace of a long name ${crypto.randomUUID().slice(0, 6)}`;
      await page.getByLabel('Name').fill(name);
      await page.getByRole('dialog').getByRole('button', { name: 'Create workspace' }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
      await page.goto(site.at('/'));
      await page.getByRole('link', { name }).waitFor();
      await checkAccess(page, () => page.getByRole('link', { name }).waitFor());
    });

    test('the sign-in page leads to the provider and back to what was wanted; a used link says so', async () => {
      const page = await site.open('/acme/runs', { signedIn: false });
      const link = page.getByRole('link', { name: 'Continue with id.example.com' });
      await link.waitFor();
      const url = new URL((await link.getAttribute('href'))!, site.target.url);
      expect(url.pathname).toBe('/auth/oidc/start');
      expect(url.searchParams.get('to')).toBe('/dashboard/acme/runs');
      await checkAccess(page, () => link.waitFor());
      await page.goto('about:blank');
      await page.goto(site.at('/login#code=made-up'));
      await page.getByText('This sign-in link is not valid').waitFor();
    });

    test('the link of an invitation opens the dashboard', async () => {
      const { id: workspace_id } = (await site.client.getSession({})).workspace;
      const body = { email: 'link@example.com', role: 'member' as const };
      const { invite } = await site.client.createInvite({ params: { workspace_id }, body });
      expect(invite.invite_url).toMatch(new RegExp(`^${site.at('/invites/')}a[\\w-]{43}$`));
      const page = await site.open('/login', { signedIn: false });
      await page.goto(invite.invite_url);
      await page.getByLabel('Your name').waitFor();
    });
  },
  SETTINGS,
);
