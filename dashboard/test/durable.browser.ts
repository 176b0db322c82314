import { expect, test } from 'vitest';
import { resumeRuns } from '../../core/execution/durable/resume.ts';
import { describeSite } from './browser.ts';

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
});
