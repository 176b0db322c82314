import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { publishCode, request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';
import { recordChain, recordRun } from './chain.ts';

/** Prints until it is stopped. */
const TICKS = `
import time
for tick in range(3000):
    print("tick", tick, flush=True)
    time.sleep(0.1)
`;

/** Counts rows added to the page. */
const WATCH_ROWS = `
window.added = 0;
new MutationObserver((records) => {
  for (const { addedNodes } of records) for (const node of addedNodes) if (node.role === 'row') window.added++;
}).observe(document.body, { childList: true, subtree: true });
`;
const SCROLL = `new Promise((done) => {
  document.querySelector('[role="treegrid"]').parentElement.parentElement.scrollTop += 280;
  requestAnimationFrame(() => requestAnimationFrame(() => done()));
})`;

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
  const start = async (text: string, agent = 'said', tenant = 'nobody-else'): Promise<string> => {
    const headers = { prefer: 'respond-async', 'x-platform-tenant': tenant };
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
    const conversation = page.getByRole('region', { name: 'Conversation' });
    await conversation.getByText('Say [[llm {"hang":true}]]').waitFor();
    await page.getByRole('row').filter({ hasText: 'llm call' }).filter({ hasText: 'running' }).click();
    // A step's request is visible before its response.
    await page.getByText('Say [[llm {"hang":true}]]').first().waitFor();
    await page.getByRole('button', { name: 'Cancel run' }).click();
    await page.getByText('Cancelled', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Edit and replay' }).click();
    await page.getByLabel('Input').fill('{"text": ');
    await page.getByText('The input is not valid JSON').waitFor();
    await page.getByLabel('Input').fill('{"text": "<img src=x onerror=alert(1)> \\u202e \\u001b[31mred"}');
    await page.getByRole('button', { name: 'Replay with this input' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(id));
    await page.getByText('Completed', { exact: true }).first().waitFor();
    // Messages are shown as text.
    await page.getByRole('row').filter({ hasText: 'llm call' }).click();
    await page.getByText('Say <img src=x onerror=alert(1)>').first().waitFor();
    // The URL follows the selection after a delay; the conversation already shows the same text.
    await page.waitForURL((url) => /^[0-9a-f]{16}$/.test(url.searchParams.get('span') ?? ''));
    expect(await page.locator('img').count()).toBe(0);
    await page.reload();
    await page.getByText('Say <img src=x onerror=alert(1)>').first().waitFor();
  });

  test('a failed run is found by its first digits', async () => {
    const id = await start('[[llm {"status":400}]]');
    const page = await site.open('/acme/runs?status=failed');
    await page.getByLabel('Search runs').fill(id.slice(0, 8));
    await page.waitForURL((url) => url.searchParams.get('q') === id.slice(0, 8));
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor();
    // The absolute time is in the tooltip of the relative one.
    await page.locator('time').first().hover();
    await page.getByRole('tooltip').getByText(' UTC').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('tooltip').waitFor({ state: 'detached' });
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
    const log = page.getByRole('log');
    await log.getByText(/^tick/).first().waitFor();
    // The log follows its end until the user scrolls to the beginning.
    const lookAt = (key: string, text: string) =>
      expect.poll(async () => {
        await log.press(key);
        return log.getByText(text, { exact: true }).count();
      });
    await lookAt('Home', 'tick 0').toBe(1);
    const seen = await log.locator('[data-index]').count();
    await lookAt('End', `tick ${seen + 5}`).toBe(1);
    await log.getByText(`tick ${seen + 10}`, { exact: true }).waitFor();
    await page.keyboard.press('c');
    await page.getByText('Cancelled', { exact: true }).waitFor();
    await page.reload();
    await log.getByText('tick 0', { exact: true }).waitFor();
    await page.getByLabel('Filter lines').fill(`tick ${seen + 5}`);
    await log.getByText(`tick ${seen + 5}`, { exact: true }).waitFor();
    expect(new URL(page.url()).searchParams.get('find')).toBe(`tick ${seen + 5}`);
  });

  test('of ten thousand steps, those in sight are in the page', async () => {
    const id = await recordChain(site.target, workspaceId, 10_000);
    const page = await site.open(`/acme/runs/${id}`);
    // The chain has one run for each 500 steps.
    const grid = page.locator('[role="treegrid"][aria-rowcount="10020"]');
    await grid.waitFor();
    const rows = grid.getByRole('row');
    expect(await rows.count()).toBeLessThan(80);
    await page.evaluate(WATCH_ROWS);
    await grid.focus();
    await page.keyboard.press('PageDown');
    await grid.locator('[aria-selected="true"][aria-rowindex="11"]').waitFor();
    for (let step = 0; step < 10; step++) await page.evaluate(SCROLL);
    await grid.locator('[aria-rowindex="110"]').waitFor();
    // Scrolling renders only the rows that become visible.
    const added = await page.evaluate<number>('window.added');
    expect(added).toBeGreaterThan(50);
    expect(added).toBeLessThan(300);
    expect(await rows.count()).toBeLessThan(80);
    await grid.press('End');
    await grid.locator('[aria-rowindex="10020"]').waitFor();
    const selected = await grid.getAttribute('aria-activedescendant');
    await page.waitForURL((url) => `line-${url.searchParams.get('span')}` === selected);
    expect(await rows.count()).toBeLessThan(80);
    // The URL holds the view.
    await page.reload();
    await page.locator('[aria-selected="true"][aria-rowindex="10020"]').waitFor();
  });

  test('a waterfall is narrowed to what failed, zoomed, folded and shown as a table', async () => {
    const id = await recordChain(site.target, workspaceId, 1_000);
    const page = await site.open(`/acme/runs/${id}?only=failed`);
    await page.getByText('22 of 1,002 steps').waitFor();
    await page.locator('[role="treegrid"][aria-rowcount="22"]').waitFor();
    await page.getByText('tool call tool_49 (failed)').first().click();
    await page.getByRole('button', { name: 'Zoom to step' }).click();
    await page.waitForURL((url) => url.searchParams.get('zoom') === '488-532');
    const bar = page.locator('[aria-selected="true"] [aria-hidden].absolute');
    const [box, whole] = [await bar.boundingBox(), await bar.locator('..').boundingBox()];
    expect(box!.width / whole!.width).toBeCloseTo(40 / 44, 1);
    const [axis] = await page.locator('[data-axis]').all();
    const { x, y, width } = (await axis!.boundingBox())!;
    await page.mouse.move(x + width / 2, y + 10);
    await page.mouse.down();
    await page.mouse.move(x + width - 1, y + 10);
    await page.mouse.up();
    await page.waitForURL((url) => url.searchParams.get('zoom') === '510-532');
    await page.keyboard.press('0');
    await page.waitForURL((url) => !url.searchParams.has('zoom'));
    await page.getByText('Critical path').click();
    await page.getByText('Show as table').click();
    await page.waitForURL(
      (url) => url.searchParams.get('view') === 'table' && url.searchParams.get('critical') === 'on',
    );
    const grid = page.getByRole('treegrid');
    await grid.press('Home');
    await grid.press('ArrowLeft');
    await page.locator('[role="treegrid"][aria-rowcount="1"]').waitFor();
    await grid.press('ArrowRight');
    await page.locator('[role="treegrid"][aria-rowcount="22"]').waitFor();
    await checkAccess(page, () => page.getByRole('treegrid').waitFor());
  });

  test('the times of a waterfall do not overlap at any width', async () => {
    const id = await recordChain(site.target, workspaceId, 1_000);
    const page = await site.open(`/acme/runs/${id}`);
    await page.getByRole('treegrid').waitFor();
    for (const width of [320, 480, 640, 800, 1024, 1280, 1600]) {
      await page.setViewportSize({ width, height: 800 });
      const boxes = await page.locator('[data-axis] > span:visible').evaluateAll((ticks) =>
        ticks.map((tick) => {
          const text = tick.ownerDocument.createRange();
          text.selectNodeContents(tick);
          const { left, right } = text.getBoundingClientRect();
          return { left, right };
        }),
      );
      expect(boxes.length, `${width} px`).toBeGreaterThan(0);
      for (const [index, { left }] of boxes.entries()) {
        if (index > 0) expect(left, `${width} px`).toBeGreaterThan(boxes[index - 1]!.right);
      }
    }
  });

  test('the panels of a run have the widths that somebody gives them', async () => {
    const id = await recordChain(site.target, workspaceId, 10);
    const page = await site.open(`/acme/runs/${id}`);
    const line = page.getByRole('separator', { name: 'Width of the panels' });
    const grid = page.getByRole('treegrid');
    await line.press('End');
    expect(await line.getAttribute('aria-valuenow')).toBe('80');
    const wide = (await grid.boundingBox())!.width;
    const { x, y, height } = (await line.boundingBox())!;
    await page.mouse.move(x + 8, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x - 300, y + height / 2);
    await page.mouse.up();
    await expect.poll(async () => wide - (await grid.boundingBox())!.width).toBeGreaterThan(200);
    const share = await line.getAttribute('aria-valuenow');
    await page.reload();
    await grid.waitFor();
    expect(await line.getAttribute('aria-valuenow')).toBe(share);
  });

  test('the tree of a chain has its runs with what they cost together', async () => {
    const id = await recordChain(site.target, workspaceId, 1_000);
    const page = await site.open(`/acme/runs/${id}?tab=tree`);
    const table = page.getByRole('table', { name: 'Runs of the chain' });
    await table.getByText('this run').waitFor();
    expect(await table.getByRole('row').count()).toBe(3);
    await table.getByRole('link').nth(1).click();
    await page.waitForURL((url) => !url.pathname.endsWith(id) && url.searchParams.get('tab') === 'tree');
    await table.getByRole('row').nth(2).getByText('this run').waitFor();
  });

  test('an output of 50 MB is a head, a size, and a file', async () => {
    const line = 'The quick brown fox jumps over the lazy dog. ';
    const texts = Array.from({ length: 500 }, (_, index) => `${index} ${line.repeat(100_000 / line.length)}`);
    const id = await recordRun(site.target, workspaceId, { result: { output: { texts } } });
    const page = await site.open(`/acme/runs/${id}?tab=output`);
    await page.getByText('The first 262.1 kB of 50.', { exact: false }).waitFor();
    expect(await page.evaluate<number>('document.body.textContent.length')).toBeLessThan(50_000);
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(file.suggestedFilename()).toBe(`${id}-output.json`);
    expect(JSON.parse(readFileSync(await file.path(), 'utf8'))).toEqual({ texts });
  });

  test('a link with the beginning of an id leads to its run, in whichever workspace', async () => {
    const id = await start('hello');
    const page = await site.open(`/r/req_${id.replaceAll('-', '').slice(0, 9)}`);
    await page.waitForURL(site.at(`/acme/runs/${id}`));
    await page.goto(site.at('/r/0000000000'));
    await page.getByRole('heading', { name: 'Run not found' }).waitFor();
  });

  test('filters are in the address, and what is not asked for is not listed', async () => {
    const id = await start('[[llm {"status":400}]]');
    const page = await site.open('/acme/runs?since=1h&version=v1&top=on');
    await page.getByRole('textbox', { name: 'Agent' }).fill('said');
    await page.waitForURL((url) => url.searchParams.get('agent') === 'said');
    await page.getByRole('button', { name: 'Status' }).click();
    await page.getByRole('option', { name: 'failed' }).click();
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor();
    expect([...new URL(page.url()).searchParams]).toEqual(
      expect.arrayContaining([
        ['since', '1h'],
        ['version', 'v1'],
        ['top', 'on'],
        ['agent', 'said'],
        ['status', 'failed'],
      ]),
    );
    await page.getByLabel('Tenant').fill('not-one');
    await page.getByText('No run matches these filters').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor();
    expect(new URL(page.url()).search).toBe('');
  });

  test('selected runs are cancelled together, and all that match are repeated', async () => {
    const tenant = crypto.randomUUID();
    const text = `[[llm {"waitFor":"${tenant}"}]]`;
    const ids = [await start(text, 'said', tenant), await start(text, 'said', tenant)];
    const page = await site.open(`/acme/runs?tenant=${tenant}`);
    for (const id of ids) {
      await page.getByRole('link', { name: id.slice(0, 8) }).focus();
      await page.keyboard.press('x');
    }
    await page.getByText('2 selected').waitFor();
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('button', { name: 'Cancel 2 runs' }).click();
    await page.getByText('2 of 2 cancelled').waitFor();
    await page.getByText('Completed', { exact: true }).first().waitFor();
    // The URL also holds the bulk action, so its progress survives a reload.
    await page.reload();
    await page.getByText('2 of 2 cancelled').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByText('All matching runs').waitFor();
    site.target.llm.release(tenant);
    await page.getByRole('button', { name: 'Replay…' }).click();
    await page.getByRole('button', { name: 'Replay 2 runs' }).click();
    await page.getByText('2 of 2 replayed').waitFor();
    const params = { workspace_id: workspaceId };
    const query = { trigger_source: 'replay', tenant_id: tenant };
    const { runs } = await site.client.listRuns({ params, query });
    expect(runs).toHaveLength(2);
  });

  test('of a thousand runs, those in sight are in the page, and older ones come as somebody scrolls', async () => {
    const tenant = crypto.randomUUID();
    for (let count = 0; count < 1_000; count++)
      await recordRun(site.target, workspaceId, { tenantId: tenant, result: {} });
    const page = await site.open(`/acme/runs?tenant=${tenant}`);
    const rows = page.locator('[data-run]');
    await rows.first().waitFor();
    const table = page.getByRole('table', { name: 'Runs' });
    expect(Number(await table.getAttribute('aria-rowcount'))).toBeLessThan(1_001);
    const last = page.locator('[data-run][aria-rowindex="1001"]');
    await expect
      .poll(async () => {
        await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
        expect(await rows.count()).toBeLessThan(80);
        return last.isVisible();
      })
      .toBe(true);
    expect(await table.getAttribute('aria-rowcount')).toBe('1001');
  });

  test('two selected runs are compared', async () => {
    const tenant = crypto.randomUUID();
    const first = await start('apples', 'said', tenant);
    const second = await start('pears', 'said', tenant);
    const page = await site.open(`/acme/runs?tenant=${tenant}`);
    for (const id of [first, second]) {
      await page.getByRole('link', { name: id.slice(0, 8) }).focus();
      await page.keyboard.press('x');
    }
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    await page.waitForURL((url) => url.searchParams.get('a') === first && url.searchParams.get('b') === second);
    const input = page.getByRole('region', { name: 'Differences of the input' });
    await input.getByText('apples').waitFor();
    await input.getByText('pears').waitFor();
    // Both traces have the same steps.
    await page.getByText('No differences.').first().waitFor();
    await page.reload();
    await checkAccess(page, () => input.getByText('pears').waitFor());
    await page.goto(site.at(`/acme/runs/${first}`));
    await page.getByRole('button', { name: 'Compare with…' }).click();
    await page.getByRole('list', { name: 'Latest runs of the agent' }).getByText(second.slice(0, 8)).click();
    await input.getByText('pears').waitFor();
    await page.goto(site.at(`/acme/runs/compare?a=${first}&b=${crypto.randomUUID()}`));
    await page.getByText('NOT_FOUND').first().waitFor();
  });

  test('messages of a run read like a conversation beside the waterfall', async () => {
    const id = await start('<b>a greeting</b>');
    const page = await site.open(`/acme/runs/${id}`);
    const turns = page.getByRole('region', { name: 'Conversation' }).getByRole('listitem');
    await turns.first().getByText('Say <b>a greeting</b>.').waitFor();
    expect(await turns.count()).toBe(2);
    await turns.nth(1).getByRole('heading', { name: 'Assistant' }).waitFor();
  });

  test('a run is printed on white, without navigation and controls', async () => {
    const id = await start('hello');
    const page = await site.open(`/acme/runs/${id}`);
    await page.getByRole('region', { name: 'Conversation' }).waitFor();
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    expect(await page.getByRole('button', { name: 'Replay', exact: true }).isVisible()).toBe(false);
    expect(await page.getByRole('link', { name: 'Overview' }).isVisible()).toBe(false);
    expect(await page.locator('h1 ~ * time').first().isVisible()).toBe(true);
    expect(await page.getByRole('region', { name: 'Conversation' }).isVisible()).toBe(true);
    const ground = await page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    expect(ground).toBe('rgb(255, 255, 255)');
  });

  test('filters are saved, and columns are hidden', async () => {
    await start('[[llm {"status":400}]]');
    const page = await site.open('/acme/runs?status=failed');
    await page.getByRole('button', { name: 'Saved filters' }).click();
    await page.getByRole('menuitem', { name: 'Save current filters…' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Only failures');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('button', { name: 'Columns' }).click();
    await page.getByRole('menuitem', { name: 'Hide Source' }).click();
    await page.getByRole('columnheader', { name: 'Source' }).waitFor({ state: 'detached' });
    await page.goto(site.at('/acme/runs'));
    await page.getByRole('columnheader', { name: 'Error' }).waitFor();
    expect(await page.getByRole('columnheader', { name: 'Source' }).count()).toBe(0);
    // Bulk actions need a selection or a filter.
    expect(await page.getByRole('toolbar', { name: 'Bulk actions' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Saved filters' }).click();
    await page.getByRole('menuitem', { name: 'Only failures', exact: true }).click();
    await page.waitForURL((url) => url.searchParams.get('status') === 'failed');
    await page.getByRole('toolbar', { name: 'Bulk actions' }).waitFor();
  });

  test('the search box takes an agent, and any text of the loaded runs', async () => {
    const id = await start('[[llm {"status":400}]]');
    const page = await site.open('/acme/runs');
    const search = page.getByLabel('Search runs');
    await search.fill('said');
    await page.waitForURL((url) => url.searchParams.get('agent') === 'said' && !url.searchParams.has('q'));
    await search.fill('no such text');
    await page.waitForURL((url) => url.searchParams.get('q') === 'no such text');
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByRole('link', { name: id.slice(0, 8) }).waitFor();
  });

  test('the list can be used by everybody', async () => {
    const id = await start('hello');
    const page = await site.open('/acme/runs');
    await checkAccess(page, () => page.getByRole('link', { name: id.slice(0, 8) }).waitFor());
  });

  test('a run can be looked at by everybody', async () => {
    const page = await site.open(`/acme/runs/${await start('hello')}`);
    await page.getByText('Completed', { exact: true }).first().waitFor();
    await checkAccess(page, () => page.getByRole('treegrid').waitFor());
  });
});
