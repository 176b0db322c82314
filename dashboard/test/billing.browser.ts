import { expect, test } from 'vitest';
import { publishCode, request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('billing', (site) => {
  test('credits are bought at the provider, and are in the balance when they are paid', async () => {
    const page = await site.open('/acme/billing');
    await page.getByRole('button', { name: 'Buy credits' }).click();
    const amount = page.getByLabel('Amount in US dollars');
    await amount.fill('3');
    expect(await page.getByRole('button', { name: 'Order credits' }).isDisabled()).toBe(true);
    await amount.fill('12.50');
    await page.getByRole('button', { name: 'Order credits' }).click();
    const link = page.getByRole('link', { name: 'Pay $12.50 at the payment provider' });
    const address = new URL((await link.getAttribute('href'))!);
    expect(address.origin).toBe(new URL(site.target.stripe.url).origin);
    site.target.stripe.provider.pay(address.pathname.split('/').at(-1)!, '4242424242424242');
    await page.getByText('Paid. The credits were added to the balance.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    const { balance_cents } = await site.client.getBalance({});
    await page
      .getByLabel('Balance', { exact: true })
      .getByText(`$${(balance_cents / 100).toFixed(2)}`)
      .waitFor();
    await page.getByRole('row').filter({ hasText: 'Purchased or granted' }).first().getByText('+$12.50').waitFor();
    // The reload clears the announcements of the buttons.
    await page.reload();
    await checkAccess(page, () => page.getByRole('table', { name: 'Transactions' }).waitFor());
    await page.setViewportSize({ width: 320, height: 800 });
    await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
  });

  test('a budget is made, changed and deleted; it says what it does at its limit', async () => {
    const { id: workspace_id } = (await site.client.getSession({})).workspace;
    const { budgets } = await site.client.listBudgets({ params: { workspace_id } });
    for (const { id } of budgets) await site.client.deleteBudget({ params: { workspace_id, budget_id: id } });
    const page = await site.open('/acme/billing?tab=budgets');
    await page.getByText('No budgets yet').waitFor();
    await page.getByRole('button', { name: 'Create budget' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Soft limit (USD)').fill('20');
    await dialog.getByLabel('Hard limit (USD)').fill('10');
    await dialog.getByRole('button', { name: /At 100% of the hard limit/ }).click();
    await page.getByRole('option', { name: /Refuse new calls/ }).click();
    await dialog.getByRole('button', { name: 'Create budget' }).click();
    await dialog.getByRole('alert').getByText('INVALID_INPUT').waitFor();
    await dialog.getByLabel('Soft limit (USD)').fill('5');
    await dialog.getByRole('button', { name: 'Create budget' }).click();
    const meter = page.getByRole('meter', { name: 'Spent of The workspace, a month' });
    await meter.waitFor();
    expect(await meter.getAttribute('aria-valuetext')).toBe('$0 of $10.00');
    await page.getByText('At the hard limit it refuses new calls.').waitFor();
    // The reload clears the announcements of the buttons.
    await page.reload();
    await checkAccess(page, () => meter.waitFor());

    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('button', { name: /^Edit the budget/ }).click();
    await dialog.getByLabel('Soft limit (USD)').fill('');
    await dialog.getByLabel('Hard limit (USD)').fill('0.01');
    await dialog.getByRole('button', { name: 'Save budget' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await site.client.listBudgets({ params: { workspace_id } })).budgets).toMatchObject([
      { soft_limit_usd: null, hard_limit_usd: 0.01, action_on_hard_limit: 'block_new_runs' },
    ]);
    await page.getByRole('button', { name: /^Delete the budget/ }).click();
    await page.getByRole('button', { name: 'Delete budget' }).click();
    await page.getByText('No budgets yet').waitFor();
  });

  test('what others paid is earned', async ({ skip }) => {
    skip(!site.target.interpreters.node, 'no Node in the sandbox');
    const page = await site.open('/acme/billing?tab=earnings');
    const earned = page.getByLabel('Earnings', { exact: true });
    await earned.getByText('Total earned').waitFor();
    const agent = `paid-${crypto.randomUUID().slice(0, 6)}`;
    const manifest = { is_public: true, price_per_call_cents: 25 };
    await publishCode(site.client, agent, { 'main.js': 'console.log("{}")' }, manifest);
    const slug = `payer-${crypto.randomUUID().slice(0, 6)}`;
    const payer = await site.target.addUser(slug);
    await site.target.grantCredits(slug, 100);
    const called = await request(site.target, 'POST', `/acme/${agent}/v1/run`, { key: payer.key, json: {} });
    expect(called.status).toBe(200);
    await page.reload();
    const row = page.getByRole('row').filter({ hasText: `acme/${agent}` });
    await row.getByText('$0.25').first().waitFor();
    const saved = page.waitForEvent('download');
    await page
      .getByRole('button', { name: /^Download the calls of/ })
      .first()
      .click();
    expect((await saved).suggestedFilename()).toMatch(/^earnings-\d{4}-\d{2}\.csv$/);
    await checkAccess(page, () => row.waitFor());
  });
});
