import { beforeAll, expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite, expectAccessible } from './browser.ts';

const GONE = 'This link does not exist or has expired.';
const HOSTILE = '<img src=x onerror=alert(1)> \u202e';

describeSite('links to runs', (site) => {
  let workspace_id: string;
  let run_id: string;
  beforeAll(async () => {
    const { client } = site;
    workspace_id = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
    await client.putSecret({ params: { workspace_id }, body: secret });
    await client.updateOrg({ body: { trace_content: 'all' }, headers: { 'x-workspace-id': workspace_id } } as never);
    const agent = { name: 'said', type: 'prompt', description: 'x', prompt: 'Say {{text}}.' };
    await client.createAgent({ body: { ...agent, supported_providers: ['anthropic'] } } as never);
    const json = { text: HOSTILE };
    const answer = await request(site.target, 'POST', '/acme/said/v1/run', { key: site.target.key, json });
    run_id = answer.headers.get('x-run-id')!;
  });

  test('a link is created, copied, opened without an account, and revoked', async () => {
    const page = await site.open(`/acme/runs/${run_id}`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Share', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Share this run' });
    await dialog.getByRole('button', { name: /Link expires after/ }).click();
    await page.getByRole('option', { name: '1 day', exact: true }).click();
    await dialog.getByRole('button', { name: 'Create link' }).click();
    await dialog.getByRole('button', { name: 'Copy link' }).click();
    const link = await page.evaluate<string>('navigator.clipboard.readText()');
    expect(link).toMatch(/^http:.*\/dashboard\/share\/a[\w-]{43}$/);
    expect(await dialog.locator('code').textContent()).toBe(link);
    const { shares } = await site.client.listRunShares({ params: { workspace_id, run_id } });
    expect(shares).toHaveLength(1);
    expect(Date.parse(shares[0]!.expires_at) - Date.parse(shares[0]!.created_at)).toBeCloseTo(24 * 3600_000, -4);
    await dialog.getByRole('listitem').getByText('Created').waitFor();
    await expectAccessible(page);

    const path = new URL(link).pathname.replace('/dashboard', '');
    const guest = await site.open(path, { signedIn: false });
    await guest.getByRole('heading', { name: 'Run of said@v1' }).waitFor();
    await guest.getByText('Completed', { exact: true }).first().waitFor();
    const turns = guest.getByRole('region', { name: 'Conversation' }).getByRole('listitem');
    // What agents and callers wrote is text.
    await turns.first().getByText('Say <img src=x onerror=alert(1)> \\u{202e}.').waitFor();
    expect(await guest.locator('img').count()).toBe(0);
    await guest.getByRole('row').filter({ hasText: 'llm call' }).waitFor();
    const shown = await guest.evaluate<string>('document.documentElement.outerHTML');
    for (const word of ['acme', workspace_id, 'Replay']) expect(shown).not.toContain(word);
    expect(await guest.locator('meta[name="robots"]').getAttribute('content')).toBe('noindex');

    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await dialog.getByRole('listitem').waitFor({ state: 'detached' });
    expect(await dialog.locator('code').count()).toBe(0);
    await guest.reload();
    await guest.getByRole('alert').getByText(GONE).waitFor();
    await guest.goto(site.at(`/share/${'A'.repeat(43)}`));
    await guest.getByRole('alert').getByText(GONE).waitFor();
    await checkAccess(guest, () => guest.getByText(GONE).waitFor());
  });

  test('the page of a link can be used by everybody, fits four widths, and prints on white', async () => {
    const { url } = await site.client.createRunShare({ params: { workspace_id, run_id }, body: {} });
    const page = await site.open(new URL(url).pathname.replace('/dashboard', ''), { signedIn: false });
    const ready = () => page.getByRole('region', { name: 'Conversation' }).waitFor();
    await checkAccess(page, ready);
    for (const width of [320, 390, 768, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    }
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    expect(await page.getByRole('button', { name: 'Print' }).isVisible()).toBe(false);
    for (const name of ['Input', 'Output', 'Steps', 'Conversation']) {
      expect(await page.getByRole('heading', { name, exact: true }).isVisible(), name).toBe(true);
    }
    // The browser applies the two settings one after the other.
    const ground = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    await expect.poll(ground).toBe('rgb(255, 255, 255)');
  });

  test('members see the links, and only owners create and revoke them', async () => {
    const member = await site.target.addUser(`member-${crypto.randomUUID().slice(0, 6)}`);
    await site.target.addMember(member, workspace_id);
    await site.client.createRunShare({ params: { workspace_id, run_id }, body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.getByLabel('API key').fill(member.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Workspaces' }).waitFor();
    await page.goto(site.at(`/acme/runs/${run_id}`));
    await page.getByRole('button', { name: 'Share', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Share this run' });
    await dialog.getByRole('listitem').first().waitFor();
    await dialog.getByText('Only owners of the workspace can create and revoke links.').waitFor();
    expect(await dialog.getByRole('button', { name: 'Create link' }).isDisabled()).toBe(true);
    expect(await dialog.getByRole('button', { name: 'Revoke' }).count()).toBe(0);
  });
});
