import { beforeAll, expect, test } from 'vitest';
import { publishCode, request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

/** Prints until it is stopped. */
const TICKS = `
import time
for tick in range(3000):
    print("tick", tick, flush=True)
    time.sleep(0.1)
`;

describeSite('runs', (site) => {
  let workspaceId: string;
  beforeAll(async () => {
    const { client } = site;
    workspaceId = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    const body = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
    await client.putSecret({ params: { workspace_id: workspaceId }, body });
    await client.updateOrg({ body: { trace_content: 'all' }, headers: { 'x-workspace-id': workspaceId } } as never);
    await client.createAgent({
      body: {
        name: 'said',
        type: 'prompt',
        description: 'x',
        prompt: 'Say {{text}}.',
        supported_providers: ['anthropic'],
      },
    } as never);
  });
  const start = async (text: string, agent = 'said'): Promise<string> => {
    const headers = { prefer: 'respond-async' };
    const path = `/acme/${agent}/v1/run`;
    const { status, body } = await request(site.target, 'POST', path, {
      key: site.target.key,
      json: { text },
      headers,
    });
    expect(status).toBe(202);
    return body.run_id;
  };

  test('a run is watched, cancelled and repeated with another input', async () => {
    const page = await site.open('/acme/runs');
    await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
    const id = await start('[[llm {"hang":true}]]');
    await page.getByRole('button', { name: '1 new' }).click();
    await page.getByRole('link', { name: id.slice(0, 8) }).click();
    await page.waitForURL(site.at(`/acme/runs/${id}`));
    await page.getByRole('row').filter({ hasText: 'llm call' }).filter({ hasText: 'running' }).waitFor();
    await page.getByRole('button', { name: 'Cancel run' }).click();
    await page.getByText('Cancelled', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Edit and replay' }).click();
    await page.getByLabel('Input').fill('{"text": ');
    await page.getByText('The input is no JSON').waitFor();
    await page.getByLabel('Input').fill('{"text": "<img src=x onerror=alert(1)> \\u202e \\u001b[31mred"}');
    await page.getByRole('button', { name: 'Replay with this input' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(id));
    await page.getByText('Completed', { exact: true }).waitFor();
    // What was said is text, whatever it is.
    await page.getByRole('row').filter({ hasText: 'llm call' }).click();
    await page.getByText('Say <img src=x onerror=alert(1)>').first().waitFor();
    expect(new URL(page.url()).searchParams.get('span')).toMatch(/^[0-9a-f]{16}$/);
    expect(await page.locator('img').count()).toBe(0);
    await page.reload();
    await page.getByText('Say <img src=x onerror=alert(1)>').first().waitFor();
  });

  test('a failed run is found by its first digits', async () => {
    const id = await start('[[llm {"status":400}]]');
    const page = await site.open('/acme/runs?status=failed');
    await page.getByLabel('Run id').fill(id.slice(0, 8));
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor();
    expect(page.url()).toContain(`q=${id.slice(0, 8)}`);
    await page.getByRole('link', { name: id.slice(0, 8) }).click();
    await page.getByText('LLM_ERROR', { exact: false }).first().waitFor();
  });

  test('what a run printed is there from its beginning, while it runs and after it was cancelled', async ({ skip }) => {
    skip(!site.target.interpreters.python, 'no Python in the sandbox');
    await publishCode(site.client, 'ticks', { 'main.py': TICKS });
    const id = await start('', 'ticks');
    const params = { workspace_id: workspaceId, run_id: id };
    const printed = async () => JSON.stringify((await site.client.listRunEvents({ params } as never)).events);
    await expect.poll(printed, { timeout: 30_000 }).toContain('tick 5');
    const page = await site.open(`/acme/runs/${id}?tab=logs`);
    const log = page.locator('pre');
    await log.filter({ hasText: /^tick 0\n/ }).waitFor();
    const seen = (await log.textContent())!.trim().split('\n').length;
    await log.filter({ hasText: `tick ${seen + 5}` }).waitFor();
    await page.keyboard.press('c');
    await page.getByText('Cancelled', { exact: true }).waitFor();
    await page.reload();
    await log
      .filter({ hasText: /^tick 0\n/ })
      .filter({ hasText: `tick ${seen + 5}` })
      .waitFor();
  });

  test('the list can be used by everybody', async () => {
    const id = await start('hello');
    const page = await site.open('/acme/runs');
    await checkAccess(page, () => page.getByRole('link', { name: id.slice(0, 8) }).waitFor());
  });

  test('a run can be looked at by everybody', async () => {
    const page = await site.open(`/acme/runs/${await start('hello')}`);
    await page.getByText('Completed', { exact: true }).waitFor();
    await checkAccess(page, () => page.getByRole('treegrid').waitFor());
  });
});
