import { beforeAll, expect, test } from 'vitest';
import { publishCode } from '../../test/helpers/platform.ts';
import { EMPTY_LOG, sinceOf, withFound } from '../src/pages/services/service-log.ts';
import { checkAccess, describeSite } from './browser.ts';

const line = (second: number, message: string) => ({
  timestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString(),
  severity: 'INFO' as const,
  message,
});

test('each line of a log is shown once, in the order of time', () => {
  const first = withFound(EMPTY_LOG, [line(20, 'a'), line(21, 'b'), line(21, 'b')]);
  expect(sinceOf(EMPTY_LOG)).toBeUndefined();
  expect(sinceOf(first)).toBe(line(11, '').timestamp);
  const second = withFound(first, [line(19, 'late'), line(20, 'a'), line(21, 'b'), line(21, 'b'), line(21, 'b')]);
  expect(second.lines.map(({ message }) => message)).toEqual(['late', 'a', 'b', 'b', 'b']);
  expect(new Set(second.lines.map(({ key }) => key)).size).toBe(5);
  expect(withFound(second, [line(21, 'b')])).toBe(second);
});

test('a log is bounded, and says where lines are missing', () => {
  const many = (from: number) => Array.from({ length: 500 }, (_, index) => line(from, `line ${from} ${index}`));
  const full = Array.from({ length: 30 }, (_, index) => index * 20).reduce(
    (log, from) => withFound(log, many(from)),
    EMPTY_LOG,
  );
  expect(full.lines).toHaveLength(10_000);
  expect(full.lines.at(-1)!.message).toBe('line 580 499');
  expect(full.lines.at(-501)!.message).toMatch(/^Some lines are missing here/);
});

/** Prints a line at each request, and at its start one line of each level and hostile ones. */
const APP = `
console.log('INFO started in ' + (process.env.PLACE ?? 'nowhere'));
console.log('\\x1b[32mgreen\\x1b[0m <img src=x onerror=alert(1)> \\u202egnp.exe');
console.log('x'.repeat(15000));
console.log('[platform] Sign in again at evil.example.');
console.error('ERROR it broke <script>alert(1)</script>');
require('node:http').createServer((request, response) => {
  console.log('INFO asked for ' + request.url);
  if (request.url === '/fail') console.error('ERROR failed at ' + request.url);
  response.end('ok');
}).listen(process.env.PORT);`;

describeSite('services', (site) => {
  let workspace_id: string;
  beforeAll(async () => {
    workspace_id = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    await site.target.setPlan(workspace_id, 'team');
    const manifest = { run_mode: 'always_on', runtime: { command: 'node server.js' } };
    await publishCode(site.client, 'bot', { 'server.js': APP }, manifest);
    await publishCode(site.client, 'broken', { 'server.js': 'process.exit(3);' }, manifest);
    await site.client.putSecret({ params: { workspace_id }, body: { name: 'BOT_KEY', value: 'made-up-bot-key' } });
  });
  const askApp = async (id: string, path: string) => {
    const { service } = await site.client.getService({ params: { workspace_id, service_id: id } });
    const url = new URL(path, service.service_url!);
    const { host, port } = site.target.services!.connection(url);
    const { request } = await import('node:http');
    await new Promise<void>((resolve, reject) => {
      request({ host, port, path, headers: { host: url.host } }, (answer) => answer.resume().on('end', resolve))
        .on('error', reject)
        .end();
    });
  };

  test('a service is deployed, watched while it starts and prints, changed, paused, started and deleted', async ({
    skip,
  }) => {
    skip(!site.target.services, 'no sandbox on this machine');
    for (const { id: service_id } of (await site.client.listServices({ params: { workspace_id } })).services) {
      await site.client.deleteService({ params: { workspace_id, service_id } });
    }
    const page = await site.open('/acme/services');
    await page.getByText('No services yet').waitFor();
    await page.getByRole('link', { name: 'Deploy service' }).click();
    await page.getByRole('button', { name: /Agent/ }).click();
    await page.getByRole('option', { name: 'bot' }).click();
    await page.getByRole('button', { name: 'Add variable' }).click();
    await page.getByLabel('Name of variable 1').fill('MY_TOKEN');
    await page.getByLabel('Value of MY_TOKEN').fill('x');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByRole('alert').getByText('looks like a secret').first().waitFor();
    await page.getByLabel('Name of variable 1').fill('PLACE');
    await page.getByLabel('Value of PLACE').fill('Berlin');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.waitForURL(/services\/[0-9a-f-]{36}$/);
    const id = page.url().split('/').at(-1)!;
    const heading = page.getByRole('heading', { level: 1 });
    await heading.getByText('Running').waitFor({ timeout: 60_000 });
    await heading.getByText('Healthy').waitFor({ timeout: 30_000 });

    // Lines appear live and as text.
    const log = page.getByRole('log');
    await log.getByText('INFO started in Berlin').waitFor();
    expect(await log.getByText('green', { exact: true }).getAttribute('class')).toContain('text-good');
    await log.getByText('<img src=x onerror=alert(1)> \\u{202e}gnp.exe').waitFor();
    await log.getByText('(15000 characters)').waitFor();
    const forged = log.locator('[data-index]').filter({ hasText: '[platform] Sign in again' });
    await forged.getByText('app', { exact: true }).waitFor();
    expect(await page.locator('main img, main script').count()).toBe(0);
    await askApp(id, '/one');
    await log.getByText('INFO asked for /one').waitFor();
    // The level filter stays while lines arrive.
    await page.getByRole('button', { name: /Level/ }).click();
    await page.getByRole('option', { name: 'Errors and above' }).click();
    await log.getByText('ERROR it broke <script>alert(1)</script>').waitFor();
    await log.getByText('INFO asked for /one').waitFor({ state: 'detached' });
    await askApp(id, '/fail');
    await log.getByText('ERROR failed at /fail').waitFor();
    expect(await log.getByText('INFO asked for').count()).toBe(0);
    expect(page.url()).toContain('level=ERROR');
    // Pausing stops updates.
    await page.getByRole('button', { name: 'Pause updates' }).click();
    await askApp(id, '/fail');
    await page.getByRole('button', { name: 'Resume updates' }).click();
    await expect.poll(() => log.getByText('ERROR failed at /fail').count()).toBe(2);

    await page.getByRole('link', { name: 'Environment' }).click();
    await page.getByText('The old ones stop once the new ones are ready').waitFor();
    await page.getByLabel('Value of PLACE').fill('Paris');
    await page.getByRole('button', { name: 'Save and restart' }).click();
    await page.getByText('Environment saved.').waitFor();
    await page.getByRole('link', { name: 'Secrets', exact: true }).click();
    await page.getByText('BOT_KEY').click();
    await page.getByRole('button', { name: 'Save and restart' }).click();
    await page.getByText('Secrets saved.').waitFor();
    expect((await site.client.getService({ params: { workspace_id, service_id: id } })).service).toMatchObject({
      env: { PLACE: 'Paris' },
      secret_names: ['BOT_KEY'],
    });
    await page.getByRole('link', { name: 'Logs' }).click();
    // Once for each of the two changes.
    await log.getByText('INFO started in Paris').first().waitFor({ timeout: 60_000 });
    await page.getByRole('link', { name: 'Metrics' }).click();
    await page.getByText('0 of 5 until the service is paused').waitFor();

    await page.getByRole('button', { name: 'Pause service' }).click();
    await heading.getByText('Paused').waitFor();
    await page.getByRole('button', { name: 'Start service' }).click();
    await heading.getByText('Running').waitFor();
    await page.getByRole('link', { name: 'Events' }).click();
    await expect.poll(() => page.getByRole('listitem').count()).toBeGreaterThan(4);
    await page.getByRole('button', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Delete service' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('bot');
    await dialog.getByRole('button', { name: 'Delete service' }).click();
    await page.getByText('No services yet').waitFor();
  });

  test('a crash loop is counted, and its pause says what to do', async ({ skip }) => {
    skip(!site.target.services, 'no sandbox on this machine');
    const body = { agent_name: 'broken', max_restart_failures: 2 };
    const { service } = await site.client.deployService({ params: { workspace_id }, body });
    const page = await site.open(`/acme/services/${service.id}`);
    await page.getByText('after 2 of 2 consecutive failed starts').waitFor({ timeout: 60_000 });
    await page.getByRole('heading', { level: 1 }).getByText('Crashing').waitFor();
    await page.getByText('exit code 3').first().waitFor();
    await checkAccess(page, () => page.getByRole('button', { name: 'Start service' }).waitFor());
    // The restart limit and the runtime settings can be changed in this state.
    await page.goto(site.at(`/acme/services/${service.id}?tab=settings`));
    await page.getByLabel('Maximum instances').fill('0');
    await page.getByText('at least the minimum').waitFor();
    expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true);
    await page.getByLabel('Maximum instances').fill('2');
    await page.getByLabel('Command').fill('node');
    await page.getByLabel('Arguments').fill('-e\nsetInterval(() => {}, 1000)');
    await page.getByLabel('Pause after consecutive failed starts').fill('7');
    await page.getByText('Follow new versions').click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Settings saved.').waitFor();
    const params = { workspace_id, service_id: service.id };
    expect((await site.client.getService({ params })).service).toMatchObject({
      ...{ max_instances: 2, max_restart_failures: 7, auto_update: false, overlap: true },
      ...{ command: 'node', args: ['-e', 'setInterval(() => {}, 1000)'] },
    });
    await site.client.deleteService({ params });
  });

  test.each([
    ['the list', '', 'table'],
    ['the form', '/new', 'textbox'],
    ['the log', '/ID', 'log'],
    ['the environment', '/ID?tab=environment', 'textbox'],
    ['the secrets', '/ID?tab=secrets', 'checkbox'],
    ['the settings', '/ID?tab=settings', 'textbox'],
    ['the metrics', '/ID?tab=metrics', 'heading'],
    ['the events', '/ID?tab=events', 'listitem'],
  ] as const)('%s can be used by everybody', async (_, path, role) => {
    // Without a sandbox there is no service.
    if (!site.target.services && path !== '/new') return;
    let id = '';
    if (site.target.services) {
      const { services } = await site.client.listServices({ params: { workspace_id } });
      const found = services.find(({ service_name }) => service_name === 'looked at');
      const body = { agent_name: 'bot', service_name: 'looked at', env: { PLACE: 'Rome' } };
      id = (found ?? (await site.client.deployService({ params: { workspace_id }, body })).service).id;
    }
    const page = await site.open(`/acme/services${path.replace('ID', id)}`);
    await checkAccess(page, () => page.locator('main').getByRole(role).first().waitFor({ timeout: 60_000 }));
  });
});
