import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { csv } from '../src/pages/usage/csv.ts';
import { checkAccess, describeSite } from './browser.ts';

test('CSV: quotes where RFC 4180 wants them, and no text is a formula', () => {
  const text = csv(
    ['tenant', 'n'],
    [
      ['=HYPERLINK("http://x")', -1],
      ['+1', 2],
      ['-1', 3],
      ['@x', 4],
      [' =1', 5],
      ['\tx', 6],
      ['＝1', 7],
      ['plain, with a comma', 8],
      ['two\nlines', 9],
      ['a-b', 10],
    ],
  );
  expect(text.split('\r\n')).toEqual([
    'tenant,n',
    `"'=HYPERLINK(""http://x"")",-1`,
    "'+1,2",
    "'-1,3",
    "'@x,4",
    "' =1,5",
    "'\tx,6",
    "'＝1,7",
    '"plain, with a comma",8',
    '"two\nlines",9',
    'a-b,10',
    '',
  ]);
});

describeSite('usage', (site) => {
  test('without calls it says how to make one; others call nothing yet', async () => {
    const page = await site.open('/acme/usage');
    await page.getByText('No calls in this period').waitFor();
    await page.getByText('npx platform run acme/AGENT').waitFor();
    await page.getByRole('link', { name: 'Your agents in other workspaces' }).click();
    await page.getByText('No other workspace called your agents').waitFor();
    expect(new URL(page.url()).searchParams.get('view')).toBe('author');
  });

  test('sums, charts with their tables, agents and tenants; the range is in the address; CSV is saved', async () => {
    const { workspace } = await site.client.getSession({});
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
    await site.client.putSecret({ params: { workspace_id: workspace.id }, body: secret });
    await site.client.createAgent({
      body: { name: 'said', type: 'prompt', description: 'x', prompt: '{{text}}', supported_providers: ['anthropic'] },
    } as never);
    const tenant = '@eu-customer';
    const say = async (text: string, tenantId?: string) => {
      const headers = tenantId === undefined ? undefined : { 'x-platform-tenant': tenantId };
      await request(site.target, 'POST', '/acme/said/v1/run', { key: site.target.key, json: { text }, headers });
    };
    await say('one', tenant);
    await say('two');
    await say('[[llm {"status":400}]]');

    // Sections below the window load when they are scrolled to.
    const page = await site.open('/acme/usage?days=7', { viewport: { width: 1280, height: 4_000 } });
    const sums = page.getByLabel('Sums');
    await sums.getByText('33.3%').waitFor();
    // The sections load in any order.
    const chart = page.getByRole('figure').filter({ has: page.locator('caption', { hasText: 'Calls per day' }) });
    await chart.locator('svg').first().waitFor();
    // Opened by keyboard, because the chart may move the summary while it is being clicked.
    await chart.getByText('Show as a table').press('Enter');
    const table = page.getByRole('table', { name: 'Calls per day' });
    await expect.poll(() => table.getByRole('row').count()).toBe(1 + 7);
    const { points } = await site.client.getUsageTimeseries({ query: { days: 7 } });
    const { date, calls, errors } = points.at(-1)!;
    const last = await table.getByRole('row').last().getByRole('cell').allTextContents();
    expect(last).toEqual([date, `${calls - errors}`, `${errors}`]);
    await checkAccess(page, () => page.getByRole('table', { name: 'Usage by agent' }).waitFor());

    await page.setViewportSize({ width: 1280, height: 900 });
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download usage by tenant as CSV' }).click();
    const file = await saved;
    expect(file.suggestedFilename()).toBe('usage-by-tenant.csv');
    const [head, row] = (await readFile(await file.path(), 'utf8')).split('\r\n');
    expect(head).toBe('tenant,calls,errors,last_call_at');
    expect(row).toMatch(/^'@eu-customer,\d+,0,20/);

    await page.getByRole('link', { name: tenant }).click();
    await page.getByText('Only tenant').waitFor();
    await sums.getByText('0%').waitFor();
    expect(new URL(page.url()).searchParams.get('tenant')).toBe(tenant);
    await page.goBack();
    await sums.getByText('33.3%').waitFor();
    await page.getByRole('button', { name: /Range/ }).click();
    await page.getByRole('option', { name: 'Today' }).click();
    await page.waitForURL(site.at('/acme/usage?days=1'));
    await page.setViewportSize({ width: 320, height: 800 });
    await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
  });

  test('what others called of public agents', async () => {
    await site.client.createAgent({
      body: {
        name: 'shared',
        type: 'prompt',
        description: 'x',
        prompt: '{{text}}',
        supported_providers: ['anthropic'],
        is_public: true,
      },
    } as never);
    const other = await site.target.addUser(`rival-${crypto.randomUUID().slice(0, 6)}`);
    const { workspaces } = (await request(site.target, 'GET', '/workspaces', { key: other.key })).body;
    await request(site.target, 'POST', `/workspaces/${workspaces[0].id}/secrets`, {
      key: other.key,
      json: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' },
    });
    const called = await request(site.target, 'POST', '/acme/shared/v1/run', { key: other.key, json: { text: 'x' } });
    expect(called.status).toBe(200);
    const page = await site.open('/acme/usage?view=author');
    await page.getByRole('table', { name: 'Latest calls' }).getByText('acme/shared@v1').waitFor();
    await checkAccess(page, () => page.getByRole('table', { name: 'Usage by agent' }).waitFor());
  });
});
