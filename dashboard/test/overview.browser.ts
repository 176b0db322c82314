import { expect, test } from 'vitest';
import { clientOf, publishCode, request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

describeSite('the first minutes', (site) => {
  test('the link of the first start leads to the first run in three clicks, and each step is checked by itself', async ({
    skip,
  }) => {
    skip(!site.target.interpreters.node, 'no Node in the sandbox');
    const user = await site.target.addUser(`new-${crypto.randomUUID().slice(0, 6)}`);
    const client = clientOf(site.target, user.key);
    const { url } = await client.createSignInCode({ body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByText('Publish an agent').waitFor();
    await checkAccess(page, () => page.getByText('Publish an agent').waitFor());
    // Sections below the window load when they are scrolled to.
    await page.setViewportSize({ width: 1280, height: 2_600 });
    const checklist = page.getByRole('region', { name: 'Get started' });
    await checklist.getByText('0 of 6 done').waitFor();
    const done = checklist.getByRole('listitem').filter({ hasText: 'Done' });

    await page.getByRole('button', { name: 'Try the example' }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Hello, world!').first().waitFor();
    await page.getByRole('link', { name: 'Open run' }).click();
    await page.getByText('Completed', { exact: true }).first().waitFor();

    await page.getByRole('link', { name: 'Overview' }).click();
    await done.filter({ hasText: 'Run an example' }).waitFor();
    await page.getByText('No recent failures.').waitFor();
    await page.getByText('No runs in progress.').waitFor();
    await page.getByText('Nothing is due in the next 7 days.').waitFor();
    // The other steps are done outside the page while it is open.
    const { workspace } = await client.getSession({});
    await publishCode(client, 'folder', { 'main.js': 'console.log(1)' });
    await done.filter({ hasText: 'Publish an agent' }).waitFor();
    await client.createSchedule({
      params: { workspace_id: workspace.id },
      body: { agent_name: 'hello', cron_expression: '* * * * *', input_data: { name: 'you' } } as never,
    });
    await done.filter({ hasText: 'Create a schedule or webhook' }).waitFor();
    await page.getByRole('table', { name: 'Next due' }).getByText('hello@v1').first().waitFor();
    expect(await page.getByRole('table', { name: 'Next due' }).getByRole('row').count()).toBe(1 + 1);
    await client.createApiKey({ body: { name: 'programs', scope: 'run' } });
    await checklist.getByRole('link', { name: 'Go to budgets' }).click();
    await page.getByRole('button', { name: 'Create budget' }).waitFor();
    await page.getByRole('link', { name: 'Overview' }).click();
    await checklist.getByText('4 of 6 done').waitFor();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.reload();
    await checklist.getByText('4 of 6 done').waitFor();
    // Completed steps are not asked for again.
    expect(asked.filter((url) => /api-keys|schedules\?limit=1$/.test(url))).toEqual([]);
    await checklist.getByRole('button', { name: 'Dismiss checklist' }).click();
    await checklist.waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('table', { name: 'Next due' }).waitFor();
    expect(await checklist.count()).toBe(0);
  });

  test('the checklist of a member has no steps of owners, and ends with its last step', async () => {
    const { workspace } = await site.client.getSession({});
    const user = await site.target.addUser(`member-${crypto.randomUUID().slice(0, 6)}`);
    await site.target.addMember(user, workspace.id);
    await publishCode(site.client, 'shared', { 'main.js': 'console.log(1)' });
    const { url } = await clientOf(site.target, user.key).createSignInCode({ body: {} });
    const page = await site.open('/login', { signedIn: false });
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.goto(site.at(`/${workspace.slug}`));
    const checklist = page.getByRole('region', { name: 'Get started' });
    await checklist.getByText('1 of 3 done').waitFor();
    await request(site.target, 'POST', `/${workspace.slug}/shared/v1/run`, { key: site.target.key, json: {} });
    await checklist.getByText('2 of 3 done').waitFor();
    await clientOf(site.target, user.key).createApiKey({ body: { name: 'programs', scope: 'run' } });
    await page.reload();
    await page.getByLabel('In this range').waitFor();
    await expect.poll(() => checklist.count()).toBe(0);
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
    const page = await site.open('/acme', { viewport: { width: 1280, height: 2_600 } });
    const numbers = page.getByLabel('In this range');
    await numbers.getByText(/^of \d+ runs?$/).waitFor();
    await start('[[llm {"status":400}]]');
    const failure = page.getByRole('table', { name: 'Recent failures' }).getByRole('row').nth(1);
    await failure.getByText('Failed', { exact: true }).waitFor();
    await numbers.getByText('50.0%').waitFor();
    const hours = page.getByRole('list', { name: 'Calls per hour' });
    await hours.getByRole('link', { name: /[1-9]\d* calls, [1-9]\d* failed$/ }).waitFor();
    expect(await hours.getByRole('link').count()).toBe(24);
    await page.getByRole('list', { name: 'Cost per day' }).getByRole('link').first().waitFor();
    await start('[[llm {"status":400}]]');
    await failure.getByText(/2 times since/).waitFor();
    expect(await page.getByRole('table', { name: 'Recent failures' }).getByRole('row').count()).toBe(1 + 1);
    const rate = /^33\.3%$/;
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
    const page = await site.open('/login', { viewport: { width: 1280, height: 2_600 } });
    await page.route('**/schedules/upcoming*', (route) =>
      route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'Not now.' } } }),
    );
    await page.goto(site.at('/acme'));
    await page.getByRole('alert').getByText('Not now.').waitFor();
    await page.getByRole('table', { name: 'Recent failures' }).waitFor();
    await page.unroute('**/schedules/upcoming*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Nothing is due in the next 7 days.').waitFor();
  });
});
