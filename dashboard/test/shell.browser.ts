import { expect, test } from 'vitest';
import { clientOf } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('the frame of all pages', (site) => {
  test('a one-time link signs in, works once, and leaves no code in the address', async () => {
    const { url } = await site.client.createSignInCode({ body: {} });
    expect(url).toMatch(/\/dashboard\/login#code=/);
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    // Opens the user's only workspace.
    await page.waitForURL(site.at('/acme'));
    await page.getByRole('heading', { level: 1, name: 'acme' }).waitFor();
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: 'platform_session', httpOnly: true, sameSite: 'Strict' });
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByText('already used').waitFor();
  });

  test('a link leads to what it was made for', async () => {
    const { url } = await site.client.createSignInCode({ body: { show: 'agent', id: 'x y' } });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.waitForURL(site.at('/acme/agents/x%20y'));
  });

  test('an API key signs in, and the page that was wanted is shown; signing out ends that', async () => {
    const page = await site.open('/acme/agents', { signedIn: false });
    await page.getByLabel('API key').fill('sk_live_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('UNAUTHORIZED').waitFor();
    await page.getByLabel('API key').fill(site.target.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Agents', exact: true }).waitFor();
    expect(page.url()).toBe(site.at('/acme/agents'));
    // The key is not stored anywhere in the page.
    const kept = await page.evaluate(
      'JSON.stringify([document.body.outerHTML, { ...localStorage }, { ...sessionStorage }])',
    );
    expect(kept).not.toContain(site.target.key);
    await page.getByRole('button', { name: 'Theme and sign-out' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    await page.goto(site.at('/acme/agents'));
    await page.getByLabel('API key').waitFor();
  });

  test('the palette and keys lead to pages', async () => {
    const page = await site.open('/acme');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page
      .getByRole('searchbox')
      .or(page.getByRole('textbox', { name: 'Search' }))
      .first()
      .fill('agen');
    await page.keyboard.press('Enter');
    await page.waitForURL(site.at('/acme/agents'));
    await page.getByRole('heading', { name: 'Agents', exact: true }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('o');
    await page.waitForURL(site.at('/acme'));
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  });

  test('a user of many workspaces finds one by a part of its name', async () => {
    const user = await site.target.addUser(`many-${crypto.randomUUID().slice(0, 6)}`);
    const client = clientOf(site.target, user.key);
    for (const name of ['Alpha', 'Beta', 'Gamma', 'Delta']) await client.createWorkspace({ body: { name } });
    await client.createWorkspace({ body: { name: 'Needle in the hay' } });
    const { url } = await client.createSignInCode({ body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByRole('button', { name: 'Switch workspace' }).click();
    const entries = page.getByRole('menuitem');
    await expect.poll(() => entries.count()).toBe(7);
    await page.keyboard.type('needle');
    await expect.poll(() => entries.count()).toBe(1);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Needle in the hay' }).waitFor();
  });

  test('the theme is chosen once', async () => {
    const page = await site.open('/');
    const ground = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
    const light = await ground();
    await page.getByRole('button', { name: 'Theme and sign-out' }).click();
    await page.getByRole('menuitem', { name: 'Dark theme' }).click();
    await expect.poll(ground).not.toBe(light);
    const dark = await ground();
    await page.reload();
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    expect(await ground()).toBe(dark);
  });

  test('unknown pages and workspaces say so', async () => {
    const page = await site.open('/acme/no/such/page');
    await page.getByText('This page does not exist').waitFor();
    await page.goto(site.at('/nobody'));
    await page.getByText('The workspace “nobody” does not exist').waitFor();
  });

  test('a platform that does not answer is said above the page, which stays', async () => {
    const page = await site.open('/', { expectedErrors: /ERR_INTERNET_DISCONNECTED/ });
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    await page.context().setOffline(true);
    await page.getByText('The platform is unreachable').waitFor();
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    await page.context().setOffline(false);
    await page.getByText('The platform is unreachable').waitFor({ state: 'detached' });
  });

  test('everybody can use it', async () => {
    const page = await site.open('/');
    await checkAccess(page, () =>
      page
        .getByRole('link', { name: /acme|main/i })
        .first()
        .waitFor(),
    );
    const login = await site.open('/login', { signedIn: false });
    await checkAccess(login, () => login.getByRole('button', { name: 'Sign in' }).waitFor());
  });
});
