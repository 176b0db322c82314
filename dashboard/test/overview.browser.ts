import { expect, test } from 'vitest';
import { clientOf, publishCode, request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('the first minutes', (site) => {
  test('the link of the first start leads to the first run in three clicks, and each card ticks by itself', async ({
    skip,
  }) => {
    skip(!site.target.interpreters.node, 'no Node in the sandbox');
    const user = await site.target.addUser(`new-${crypto.randomUUID().slice(0, 6)}`);
    const client = clientOf(site.target, user.key);
    const { url } = await client.createSignInCode({ body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByText('Publish a folder').waitFor();
    await checkAccess(page, () => page.getByText('Publish a folder').waitFor());
    await page.setViewportSize({ width: 1280, height: 900 });
    const done = page.getByRole('listitem').filter({ hasText: 'Done' });
    expect(await done.count()).toBe(0);

    await page.getByRole('button', { name: 'Try the example' }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Hello, world!').first().waitFor();
    await page.getByRole('link', { name: 'Open run' }).click();
    await page.getByText('Completed', { exact: true }).first().waitFor();

    await page.getByRole('link', { name: 'Overview' }).click();
    await done.filter({ hasText: 'Run an example' }).waitFor();
    await page.getByText('No run failed or ran out of time.').waitFor();
    await page.getByText('No runs in progress.').waitFor();
    await page.getByText('Nothing is due in the next 7 days.').waitFor();
    // The other steps are done outside the page while it is open.
    const { workspace } = await client.getSession({});
    await publishCode(client, 'folder', { 'main.js': 'console.log(1)' });
    await done.filter({ hasText: 'Publish a folder' }).waitFor();
    await client.createSchedule({
      params: { workspace_id: workspace.id },
      body: { agent_name: 'hello', cron_expression: '* * * * *', input_data: { name: 'you' } } as never,
    });
    await page.getByText('First steps').waitFor({ state: 'detached' });
    await page.getByRole('table', { name: 'Next due' }).getByText('hello@v1').first().waitFor();
    expect(await page.getByRole('table', { name: 'Next due' }).getByRole('row').count()).toBe(1 + 1);
  });
});

describeSite('the overview of a workspace', (site) => {
  test('it shows what runs, what failed, messages and numbers, as they come', async () => {
    const workspace_id = (await site.client.getSession({})).workspace.id;
    const name = 'a-name-as-long-as-names-may-be-so-that-all-else-gives'.slice(0, 50);
    await site.client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    await site.client.createAgent({
      body: { name, type: 'prompt', description: 'x', prompt: 'Say {{text}}.', supported_providers: ['anthropic'] },
    } as never);
    const start = async (text: string): Promise<void> => {
      const headers = { prefer: 'respond-async' };
      const options = { key: site.target.key, json: { text }, headers };
      expect((await request(site.target, 'POST', `/acme/${name}/v1/run`, options)).status).toBe(202);
    };
    await start('hello');
    const page = await site.open('/acme');
    const numbers = page.getByLabel('In this range');
    await numbers.getByText(/^of \d+ runs?$/).waitFor();
    await start('[[llm {"status":400}]]');
    const failure = page.getByRole('table', { name: 'Last failures' }).getByRole('row').nth(1);
    await failure.getByText('Failed', { exact: true }).waitFor();
    await numbers.getByText('50.0 %').waitFor();
    const hours = page.getByRole('list', { name: 'Calls per hour' });
    await hours.getByRole('link', { name: /[1-9]\d* calls, [1-9]\d* failed$/ }).waitFor();
    expect(await hours.getByRole('link').count()).toBe(24);
    await page.getByRole('list', { name: 'Cost per day' }).getByRole('link').first().waitFor();
    await start('[[llm {"status":400}]]');
    await failure.getByText(/2 times since/).waitFor();
    expect(await page.getByRole('table', { name: 'Last failures' }).getByRole('row').count()).toBe(1 + 1);
    const rate = /^33\.3 %$/;
    await numbers.getByText(rate).waitFor();
    await start('[[llm {"hang":true}]]');
    await page.getByRole('table', { name: 'Running now' }).getByText(`${name}@v1`).waitFor();
    await site.client.sendMessage({ body: { title: '<b>Look</b> at this', body: 'x', level: 'warning' } } as never);
    await page.getByText('<b>Look</b> at this').waitFor();
    await page.getByRole('link', { name: 'Today' }).click();
    await page.waitForURL(site.at('/acme?days=1'));
    await numbers.getByText(rate).waitFor();
    await checkAccess(page, () => failure.waitFor());
    await page.setViewportSize({ width: 320, height: 800 });
    await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
    await page
      .getByRole('link', { name: `${name}@v1` })
      .first()
      .click();
    await page.waitForURL(/\/acme\/runs\/[0-9a-f-]{36}/);
  });

  test('an error of one part is said where it stands', async () => {
    const page = await site.open('/login');
    await page.route('**/schedules/upcoming*', (route) =>
      route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'Not now.' } } }),
    );
    await page.goto(site.at('/acme'));
    await page.getByRole('alert').getByText('Not now.').waitFor();
    await page.getByRole('table', { name: 'Last failures' }).waitFor();
    await page.unroute('**/schedules/upcoming*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Nothing is due in the next 7 days.').waitFor();
  });
});
