import { strToU8, zipSync } from 'fflate';
import { expect, test } from 'vitest';
import { checkAccess, describeSite, type Site } from './browser.ts';

async function publish(site: Site, name: string, further: object = {}): Promise<string> {
  const { agent } = await site.client.createAgent({
    body: {
      name,
      type: 'prompt',
      description: `tests ${name}`,
      prompt: 'First line\nSecond line',
      supported_providers: ['anthropic'],
      required_secrets: [],
      ...further,
    },
  });
  return agent.id;
}

async function publishTool(site: Site, name: string, files: Record<string, string | Uint8Array>): Promise<string> {
  const id = await publish(site, name, { type: 'tool', prompt: undefined, entrypoint: 'main.py' });
  const entries = Object.entries(files).map(([path, content]) => [
    path,
    typeof content === 'string' ? strToU8(content) : content,
  ]);
  const body = new FormData();
  body.set('file', new File([zipSync(Object.fromEntries(entries)) as Uint8Array<ArrayBuffer>], 'bundle.zip'));
  await site.client.uploadBundle({ params: { id }, body });
  return id;
}

describeSite('parts of an agent', (site) => {
  test('versions are compared, an older one is published again, and one is deleted', async () => {
    const name = `versions-${Date.now()}`;
    await publish(site, name);
    await publish(site, name, { prompt: 'First line\nAnother <b>line</b>', tags: ['new'] });
    const page = await site.open(`/acme/agents/${name}?tab=versions`);
    const diff = page.getByRole('region', { name: 'Changes of prompt' });
    await diff.getByText('Another <b>line</b>').waitFor();
    expect(await diff.textContent()).toContain('removed: Second line');
    await page.getByRole('region', { name: 'Changes of agent.json' }).getByText('"new"').waitFor();
    await checkAccess(page, () => diff.waitFor());

    await page.getByRole('button', { name: 'Publish again: v1' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Publish again' }).click();
    await page.getByRole('button', { name: 'Delete v3' }).waitFor();
    const published = (await site.client.listAgents({ query: { name } })).at(-1)!;
    expect(published).toMatchObject({ version: 'v3', prompt: 'First line\nSecond line', tags: [] });

    await page.getByRole('button', { name: 'Delete v3' }).click();
    await page.getByText('“latest” will then be v2.').waitFor();
    await page.getByRole('button', { name: 'Delete version' }).click();
    await page.getByRole('button', { name: 'Delete v3' }).waitFor({ state: 'detached' });
  });

  test('a version that its gate holds is no choice for a channel, and becomes latest once an owner opens the gate', async () => {
    const name = `gated-${Date.now()}`;
    await publish(site, name);
    // No model answers here, so that the evaluation decides nothing.
    const eval_files = { 'first.yaml': 'tests: [{ vars: {}, assert: [{ type: contains, value: report }] }]' };
    await publish(site, name, { prompt: 'Another', evals: { gate: true }, eval_files });
    const page = await site.open(`/acme/agents/${name}?tab=versions`);
    await page.getByRole('link', { name: 'Evaluation', exact: true }).waitFor();
    await page.getByRole('button', { name: 'New channel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Version' }).click();
    await page.getByRole('option', { name: 'v1' }).waitFor();
    expect(await page.getByRole('option', { name: 'v2' }).count()).toBe(0);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: 'Open the gate of v2' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Open the gate' }).isDisabled()).toBe(true);
    await dialog.getByLabel('Reason').fill('The provider is down');
    await dialog.getByRole('button', { name: 'Open the gate' }).click();
    await page.getByRole('button', { name: 'Open the gate of v2' }).waitFor({ state: 'detached' });
    const opened = (await site.client.listAgents({ query: { name } })).at(-1)!;
    expect(opened).toMatchObject({
      current_version: 'v2',
      gate: { status: 'overridden', reason: 'The provider is down' },
    });
  });

  test('a channel is made, gets a canary, is promoted and rolled back', async () => {
    const name = `channels-${Date.now()}`;
    for (const prompt of ['One', 'Two']) await publish(site, name, { prompt });
    const page = await site.open(`/acme/agents/${name}?tab=versions`);
    await page.getByText('This agent has no channels.').waitFor();
    const choose = async (label: string, version: string) => {
      await page.getByRole('dialog').getByRole('button', { name: label }).click();
      await page.getByRole('option', { name: version }).click();
    };
    const save = () => page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    const table = page.getByRole('grid', { name: 'Channels' });

    await page.getByRole('button', { name: 'New channel' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('Prod');
    await choose('Version', 'v1');
    await save();
    await page.getByText('must be 1-32 lower-case letters').waitFor();
    await page.getByRole('dialog').getByLabel('Name').fill('prod');
    await save();
    await page.getByRole('button', { name: 'Change: prod' }).waitFor();
    await checkAccess(page, () => page.getByRole('button', { name: 'Change: prod' }).waitFor());

    await page.getByRole('button', { name: 'Change: prod' }).click();
    await choose('Canary', 'v2');
    await page.getByLabel('Percent of the calls').fill('101');
    await page.getByText('Enter a number from 0 to 100').waitFor();
    await page.getByLabel('Percent of the calls').fill('25');
    await save();
    await page.getByText('25 % on v2').waitFor();

    await page.getByRole('button', { name: 'Promote: prod' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Promote' }).click();
    await page.getByRole('button', { name: 'Promote: prod' }).waitFor({ state: 'detached' });
    const [agent] = await site.client.listAgents({ query: { name } });
    const params = { id: agent!.id, channel: 'prod' };
    expect(await site.client.getChannel({ params })).toMatchObject({ version: 'v2', canary: null });

    await page.getByRole('button', { name: 'Roll back: prod' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await site.client.getChannel({ params })).toMatchObject({ version: 'v1' });

    await page.getByRole('button', { name: 'History: prod' }).click();
    await page.getByRole('dialog').getByText('v1, 25 % on v2').first().waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();

    await page.getByRole('button', { name: 'Delete: prod' }).click();
    await page.getByRole('button', { name: 'Delete channel' }).click();
    await page.getByText('This agent has no channels.').waitFor();
    await table.waitFor({ state: 'detached' });
  });

  test('code is read as text, whatever its names and contents are; what is large or no text is downloaded', async () => {
    const name = `hostile-${Date.now()}`;
    const v1 = { 'main.py': 'print(1)\n', 'kept.py': 'same\n' };
    await publishTool(site, name, v1);
    await publishTool(site, name, {
      ...v1,
      'main.py': 'print("<script>window.hacked = 1</script>")\n# \u202etxt.exe\n',
      'a<img src=x onerror=alert(1)>/"quoted".py': '<img src=x onerror="window.hacked = 2">',
      __proto__: 'polluted',
      'constructor/__proto__/x.py': 'y',
      'turned\u202egnp.py': 'x',
      'raw.bin': new Uint8Array([0, 1, 2, 255]),
      'large.txt': 'x'.repeat(600_000),
      [`${'long-'.repeat(40)}.txt`]: 'long name',
    });
    const page = await site.open(`/acme/agents/${name}?tab=code`);
    const files = page.getByRole('navigation', { name: 'Files' });
    await page.getByText('window.hacked = 1').waitFor();
    await page.getByText(String.raw`\u{202e}txt.exe`).waitFor();
    await files.getByText('a<img src=x onerror=alert(1)>').waitFor();
    await files.getByText('"quoted".py').click();
    await page.getByText('window.hacked = 2').waitFor();
    await files.getByText(String.raw`turned\u{202e}gnp.py`).waitFor();
    await files.getByText('raw.bin').click();
    await page.getByText('This file is not UTF-8 text.').waitFor();
    expect(new URL(page.url()).searchParams.get('file')).toBe('raw.bin');
    await files.getByText('large.txt').click();
    await page.getByText(/are not shown/).waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download', exact: true }).click(),
    ]);
    expect(file.suggestedFilename()).toBe('large.txt');
    await files.getByText('__proto__', { exact: true }).first().click();
    await files.getByText('agent.json').click();
    await page.getByText('"entrypoint"').waitFor();
    expect(await page.evaluate('window.hacked ?? ({}).polluted ?? null')).toBeNull();
    await checkAccess(page, () => page.getByText('"entrypoint"').waitFor());

    await page.getByRole('link', { name: 'Versions' }).click();
    const changed = page.getByRole('group').filter({ hasText: 'main.py' });
    await changed.first().click();
    await page.getByRole('region', { name: 'Changes of main.py' }).getByText('window.hacked').waitFor();
    expect(await page.getByText('kept.py').count()).toBe(0);
  });

  test('the address, the schema as a table, what it calls, and service keys that are shown once', async () => {
    const name = `called-${Date.now()}`;
    const skill = `style-${Date.now()}`;
    await publish(site, skill, { type: 'skill', prompt: 'Be brief.' });
    await publish(site, name, {
      default_skills: [skill],
      input_schema: {
        type: 'object',
        required: ['address'],
        properties: {
          address: {
            type: 'object',
            properties: { street: { type: 'string', description: 'With its <b>number</b>' } },
          },
          lines: { type: 'array', items: { type: 'object', properties: { price: { type: 'number', minimum: 0 } } } },
        },
      },
    });
    const page = await site.open(`/acme/agents/${name}?tab=api`);
    const { url } = site.target;
    for (const address of [
      `${url}/acme/${name}/v1/run`,
      `${url}/acme/${name}/mcp`,
      `${url}/mcp`,
      `${url}/a2a/acme/${name}`,
    ]) {
      await page.getByText(address, { exact: true }).waitFor();
    }
    await page.getByText(`curl '${url}/acme/${name}/v1/run'`).waitFor();
    for (const [way, text] of [
      ['TypeScript', `client ts acme/${name}@v1 --out ${name}.ts`],
      ['Python', `from ${name.replaceAll('-', '_')} import run`],
      ['OpenAPI', `${url}/acme/${name}/v1/openapi.json`],
    ] as const) {
      await page.getByRole('button', { name: /Use it from/ }).click();
      await page.getByRole('option', { name: way }).click();
      await page.getByText(text).first().waitFor();
    }
    const opened = page.waitForEvent('popup');
    await page.getByRole('link', { name: 'openapi.json' }).click();
    expect(await (await opened).locator('body').textContent()).toContain(`"title":"acme/${name}"`);
    await page.getByRole('row', { name: /address\.street string With its <b>number<\/b>/ }).waitFor();
    await page.getByRole('row', { name: /lines\[\]\.price number minimum 0/ }).waitFor();
    await page.getByText(`acme/${skill}`).waitFor();
    await page.getByRole('button', { name: 'Create service key' }).click();
    const dialog = page.getByRole('dialog');
    const key = (await dialog.locator('code').textContent())!;
    await page.keyboard.press('Escape');
    await dialog.getByRole('button', { name: 'Copy' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(key);
    await checkAccess(page, () => page.getByRole('button', { name: /^Revoke/ }).waitFor());
    await page.getByRole('button', { name: /^Revoke/ }).click();
    await page.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByText('No service keys').waitFor();
  });

  test('settings are changed, a public agent is forked, and an agent goes once its name is typed', async () => {
    const name = `settings-${Date.now()}`;
    await publish(site, name);
    const page = await site.open(`/acme/agents/${name}?tab=settings`);
    await page.getByLabel('Tags').fill('weather, fast');
    await page.getByLabel('Time limit (seconds)').fill('-5');
    await page.getByText('Public: listed in the catalog').click();
    await page.getByText('Source available').click();
    await checkAccess(page, () => page.getByLabel('Tags').waitFor());
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('alert').getByText('timeout_seconds').waitFor();
    await page.getByLabel('Time limit (seconds)').fill('60');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByText(`${name} v1 was changed.`).waitFor();
    const [changed] = await site.client.listAgents({ query: { name } });
    expect(changed).toMatchObject({ tags: ['weather', 'fast'], timeout_seconds: 60, is_public: true });

    await page.getByLabel('Name of the copy').fill(`${name}-copy`);
    await page.getByRole('button', { name: 'Fork agent' }).click();
    await page.waitForURL(site.at(`/acme/agents/${name}-copy`));

    await page.goto(site.at(`/acme/agents/${name}?tab=settings`));
    await page.getByRole('button', { name: `Delete ${name}` }).click();
    await page.getByText('Its 1 fork is kept').waitFor();
    const confirm = page.getByRole('button', { name: 'Delete agent' });
    expect(await confirm.isDisabled()).toBe(true);
    await page.getByLabel(`Type "${name}" to confirm`).fill(name);
    await confirm.click();
    await page.waitForURL(site.at('/acme/agents'));
    expect(await site.client.listAgents({ query: { name } })).toEqual([]);
  });

  test('an agent that is not there says so', async () => {
    const page = await site.open('/acme/agents/nothing-of-this-name');
    await page.getByText('This workspace has no agent “nothing-of-this-name”').waitFor();
  });
});
