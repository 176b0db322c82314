import { expect, test } from 'vitest';
import { describeSite } from './browser.ts';

describeSite('runs that wait for their turn', (site) => {
  test('show the rule that holds them, on their page and in the list', async () => {
    const { target, client } = site;
    const debounce = { seconds: 3600, key: '/order' };
    await client.createAgent({ body: { name: 'turns', type: 'prompt', description: 'x', prompt: 'Wait.', debounce } });
    const { workspace } = await client.getSession({});
    const params = { workspace_id: workspace.id };
    await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
    const headers = {
      authorization: `Bearer ${target.key}`,
      prefer: 'respond-async',
      'content-type': 'application/json',
    };
    const body = JSON.stringify({ order: 'order-4711' });
    const answer = await fetch(`${target.url}/acme/turns/latest/run`, { method: 'POST', headers, body });
    const { run_id } = (await answer.json()) as { readonly run_id: string };

    const page = await site.open(`/acme/runs/${run_id}`);
    await page.getByText(/waits for its turn \(debounce 3600 s, ord….{6}\)/).waitFor();
    const list = await site.open('/acme/runs');
    const row = list.getByRole('row', { name: /turns/ });
    await row.getByText(/waits for its turn/).waitFor();
    await client.cancelRun({ params: { ...params, run_id } });
    await page.reload();
    await page.getByText('The run was cancelled.').first().waitFor();
    expect(await page.getByText(/waits for its turn/).count()).toBe(0);
  });
});
