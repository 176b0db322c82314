import { expect, test } from 'vitest';
import { resumeRuns } from '../../core/execution/durable/resume.ts';
import { checkAccess, describeSite } from './browser.ts';

const CONTINUED = 'Continued by another process (attempt 2): host lost';

describeSite('durable runs', (site) => {
  test('the playground follows one beyond its call, and its page marks where another process continued', async () => {
    const { target, client } = site;
    const lasting = { durable: { max_active_seconds: 3600 }, timeout_seconds: 2, required_secrets: [] };
    const loop = { type: 'agent', description: 'reads', prompt: 'Go on.', loop: { max_turns: 60, tools: [] } } as const;
    await client.createAgent({ body: { ...loop, ...lasting, name: 'reader' } });
    const { workspace } = await client.getSession({});
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' };
    await client.putSecret({ params: { workspace_id: workspace.id }, body: secret });
    const submit = { name: 'submit_result', input: { result: 'all is read' } };
    // There is no such tool, so no sandbox is needed.
    // The first process waits for its second answer, for as long as it lives.
    const turns = [{ toolCalls: [{ name: 'look', input: {} }] }, { hang: true, times: 1 }, { toolCalls: [submit] }];
    target.llm.script({ rules: [{ marker: 'Go on.', turns }] });

    const page = await site.open('/acme/agents/reader');
    await page.getByText('Durable, up to 1 h of work').waitFor();
    await page.keyboard.press('Control+Enter');
    await page.getByText('Turn 2').waitFor();
    const { runs } = await client.listRuns({ params: { workspace_id: workspace.id }, query: { limit: 1 } });
    const params = { workspace_id: workspace.id, run_id: runs[0]!.id };
    const seen = async () => JSON.stringify(await client.listRunEvents({ params }));
    await expect.poll(seen, { timeout: 10_000 }).toContain('"turn":2');
    // As if the process had died: the run is taken from it.
    await resumeRuns(target.deps, { all: true });
    await page.getByText(CONTINUED).waitFor();
    await page.getByText('all is read').waitFor();

    expect(await client.getRun({ params })).toMatchObject({ status: 'completed', agent_name: 'reader' });
    const shown = await site.open(`/acme/runs/${params.run_id}`);
    await shown.getByRole('row', { name: CONTINUED }).click();
    await shown.getByRole('heading', { name: CONTINUED }).waitFor();
  });

  test('one begins again from a turn, and is drawn beside its origin', async () => {
    const { target, client } = site;
    const { workspace } = await client.getSession({});
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' };
    await client.putSecret({ params: { workspace_id: workspace.id }, body: secret });
    const loop = {
      type: 'agent',
      description: 'reads',
      prompt: 'Branch.',
      loop: { max_turns: 60, tools: [] },
    } as const;
    await client.createAgent({ body: { ...loop, durable: true, required_secrets: [], name: 'brancher' } });
    // There are no such tools, so no sandbox is needed.
    const look = (name: string) => ({ toolCalls: [{ name, input: {} }] });
    const submit = { name: 'submit_result', input: { result: 'all is read' } };
    target.llm.script({ rules: [{ marker: 'Branch.', turns: [look('one'), look('two'), { toolCalls: [submit] }] }] });
    const headers = { authorization: `Bearer ${target.key}` };
    const answer = await fetch(`${target.url}/acme/brancher/latest/run`, { method: 'POST', headers });
    const id = answer.headers.get('x-run-id')!;

    const page = await site.open(`/acme/runs/${id}`);
    await page.getByRole('link', { name: 'Turns' }).click();
    await page
      .getByRole('row', { name: /Turn 2/ })
      .getByText('two')
      .waitFor();
    await page.getByRole('button', { name: 'Begin again from here: turn 3' }).click();
    const dialog = page.getByRole('dialog', { name: 'Begin again from turn 3' });
    await dialog.getByLabel('Message').fill('Read more.');
    await dialog.getByLabel('Model').fill('openai/nothing');
    await checkAccess(page, () => dialog.getByLabel('Message').waitFor());
    await dialog.getByRole('button', { name: 'Begin' }).click();
    await dialog
      .getByText(/openai/i)
      .first()
      .waitFor();
    await dialog.getByLabel('Model').fill('');
    await dialog.getByRole('button', { name: /Result of a tool/ }).click();
    await page.getByRole('option', { name: 'Turn 2, call 1: two' }).click();
    await dialog.getByLabel('New result').fill('a new result');
    await dialog.getByRole('button', { name: 'Begin' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(id));

    await page.getByText('Turns 1 to 2 are copied from').waitFor();
    await page.getByText('branch of').waitFor();
    await page.getByRole('row', { name: /Turn 1 · copied/ }).waitFor();
    await checkAccess(page, () => page.getByText('Turns 1 to 2 are copied from').waitFor());
    await page.getByRole('link', { name: `run ${id.slice(0, 8)}` }).click();
    await page.waitForURL((url) => url.pathname.endsWith(id));
    const third = page.getByRole('row', { name: /Turn 3/ });
    await third.getByText('a message, other results of tools').waitFor();
    await third.getByText('Completed').waitFor();
    const asked = JSON.stringify(target.llm.requests.at(-1));
    expect(asked).toContain('a new result');
    expect(asked).toContain('Read more.');
  });
});
