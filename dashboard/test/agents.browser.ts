import { expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite, type Site } from './browser.ts';

const SCHEMA = {
  type: 'object',
  required: ['city'],
  properties: {
    city: { type: 'string', title: 'City', description: 'Where', minLength: 2 },
    days: { type: 'integer', title: 'Days', default: 3 },
  },
};

async function publish(site: Site, name: string): Promise<void> {
  await site.client.createAgent({
    body: {
      name,
      type: 'prompt',
      description: `tests ${name}`,
      prompt: 'The weather in {{city}} for {{days}} days.',
      input_schema: SCHEMA,
      supported_providers: ['anthropic'],
      required_secrets: [],
    },
  });
  const { workspace } = await site.client.getSession({});
  await site.client.putSecret({
    params: { workspace_id: workspace.id },
    body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' },
  });
}

describeSite('agents', (site) => {
  test('a workspace without agents says how to make one', async () => {
    const page = await site.open('/acme/agents');
    await page.getByText('No agents yet').waitFor();
    await page.getByText('npx platform publish hello').waitFor();
  });

  test('the list shows the agents, finds some, and takes in a new one by itself', async () => {
    const page = await site.open('/acme/agents');
    await publish(site, 'weather');
    const row = page.getByRole('row', { name: /weather/ });
    await row.waitFor();
    await publish(site, 'tides');
    await page.getByRole('row', { name: /tides/ }).waitFor();
    await page.getByLabel('Filter agents').fill('weat');
    await page.getByRole('row', { name: /tides/ }).waitFor({ state: 'detached' });
    expect(new URL(page.url()).searchParams.get('q')).toBe('weat');
    await page.getByLabel('Filter agents').blur();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(site.at('/acme/agents/weather'));
    await page.goBack();
    await row.waitFor();
    await checkAccess(page, () => row.waitFor());
  });

  test('of hundreds of agents, those in sight are in the page, and every one is found', async () => {
    const before = (await site.client.listAgents({ query: { latest: 'true', limit: 100 } })).length;
    for (let number = 0; number < 160; number++) {
      const manifest = { type: 'prompt', description: 'x', prompt: 'x', supported_providers: ['anthropic'] } as const;
      await site.client.createAgent({ body: { ...manifest, name: `one-of-many-${number}` } });
    }
    const page = await site.open('/acme/agents');
    await page.locator(`table[aria-rowcount="${1 + before + 160}"]`).waitFor();
    expect(await page.getByRole('row').count()).toBeLessThan(80);
    // The agent published first is the last in the list.
    await page.getByLabel('Filter agents').fill('one-of-many-0');
    await page.getByRole('row', { name: /one-of-many-0/ }).waitFor();
  });

  test('the playground keeps form and JSON in step, streams, and shows this very call in code', async () => {
    await publish(site, 'forecast');
    site.target.llm.queue({ text: 'Sunny, <b>very</b> sunny.' });
    const page = await site.open('/acme/agents/forecast');
    const city = page.getByLabel(/^City/);
    await city.fill('Oslo');
    await page.getByRole('button', { name: 'JSON', exact: true }).click();
    const editor = page.getByLabel('Input as JSON');
    await editor.getByText('"Oslo"').waitFor();
    await editor.fill('{"city": "Bergen", "days": 2, "extra": {"kept": [1, 2]}}');
    await page.getByRole('button', { name: 'Form', exact: true }).click();
    expect(await city.inputValue()).toBe('Bergen');
    await city.fill('Tromsø');
    await page.getByRole('button', { name: 'JSON', exact: true }).click();
    await editor.getByText('"kept"').waitFor();
    await editor.getByText('"Tromsø"').waitFor();

    // Invalid JSON is preserved as well.
    await editor.fill('{"city": ');
    await page.getByRole('button', { name: 'Form', exact: true }).click();
    await page.getByText('Nothing is lost').waitFor();
    await page.getByRole('button', { name: 'Show as JSON' }).click();
    await editor.getByText('"city"').waitFor();
    await editor.fill(`{"city": "O'Hare"}`);

    await page.keyboard.press('Control+Enter');
    await page.getByText('Completed').first().waitFor();
    await page.getByText('Sunny, <b>very</b> sunny.').waitFor();
    const snippet = page.getByText(/^curl /);
    expect(await snippet.textContent()).toContain(String.raw`-d '{"city":"O'\''Hare"}'`);
    await page.getByRole('button', { name: 'Load input' }).first().waitFor();
  });

  test('an agent opens with its latest input, texts of several lines are shown as such, and favorites are in the side bar', async () => {
    const city = 'Oslo\nNorway';
    await publish(site, 'harbor');
    const { target } = site;
    await request(target, 'POST', '/acme/harbor/v1/run', { key: target.key, json: { city } });
    const page = await site.open('/acme/agents/harbor');
    await page.getByText('This is the input of the latest run.').waitFor();
    const field = page.getByLabel(/^City/);
    await expect.poll(() => field.inputValue()).toBe(city);
    expect(await field.and(page.locator('textarea')).count()).toBe(1);
    // It stays a large field without the line break.
    await field.fill('Oslo');
    await field.press('End');
    await page.keyboard.type('!');
    expect(await field.inputValue()).toBe('Oslo!');
    await page.getByRole('button', { name: 'Add to favorites' }).click();
    await page.goto(site.at('/acme/runs'));
    const favorites = page.getByRole('region', { name: 'Favorites' });
    await favorites.getByRole('link', { name: 'harbor' }).click();
    await page.getByRole('button', { name: 'Remove from favorites' }).click();
    await favorites.waitFor({ state: 'detached' });
  });

  test('an input that the agent refuses is said with its field, and the form says it before', async () => {
    await publish(site, 'strict');
    const page = await site.open('/acme/agents/strict');
    await page.getByLabel(/^City/).fill('X');
    await page
      .getByText(/city.*short|short/i)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('alert').getByText('INVALID_INPUT').waitFor();
    await checkAccess(page, () => page.getByLabel(/^City/).waitFor());
  });
});
