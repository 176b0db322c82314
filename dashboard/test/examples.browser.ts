import { expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

describeSite('the gallery of examples', (site) => {
  test('an example is published with one click and runs with its sample input', async ({ skip }) => {
    skip(!site.target.interpreters.python, 'no Python in the sandbox');
    const page = await site.open('/acme/agents');
    await page.getByRole('link', { name: 'Browse examples' }).click();
    const card = page.getByRole('listitem').filter({ hasText: 'csv-insights' }).first();
    await card.waitFor();
    await checkAccess(page, () => page.getByRole('heading', { name: 'csv-insights' }).waitFor());
    await page.setViewportSize({ width: 1280, height: 900 });
    expect(await site.client.listAgents({ query: { name: 'csv-insights' } })).toEqual([]);

    await page.getByRole('button', { name: 'Use this: csv-insights' }).click();
    await page.getByRole('heading', { name: 'csv-insights' }).waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Completed', { exact: true }).first().waitFor();
    const { id } = await site.client.getSession({}).then(({ workspace }) => workspace);
    const { runs } = await site.client.listRuns({ params: { workspace_id: id }, query: { limit: 1 } });
    const logs = await site.client.getRunLogs({ params: { workspace_id: id, run_id: runs[0]!.id } });
    expect(JSON.stringify(logs.input_data)).toContain('1001,2026-10-01,Ada');
    const [agent] = await site.client.listAgents({ query: { name: 'csv-insights' } });
    expect(agent).toMatchObject({ version: 'v1', is_public: false });

    await page.goto(site.at('/acme/examples'));
    await page.getByRole('link', { name: 'Open csv-insights' }).waitFor();
  });

  test('the examples that one needs are published first, in its own workspace', async () => {
    const page = await site.open('/acme/examples');
    const card = page
      .getByRole('listitem')
      .filter({ has: page.getByRole('button', { name: 'Use this: support-digest' }) });
    await card.getByRole('link', { name: 'add it as a secret' }).waitFor();
    await page.getByRole('button', { name: 'Use this: support-digest' }).click();
    await page.getByRole('dialog').getByText('Service key of support-digest').waitFor();
    const agents = await site.client.listAgents({ query: { latest: 'true' } });
    expect(agents.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['csv-insights', 'reply-style', 'support-digest', 'ticket-triage']),
    );
    expect(JSON.stringify(agents.find(({ name }) => name === 'support-digest')?.manifest)).toContain(
      'acme/csv-insights',
    );
  });
});
