import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { strToU8, zipSync } from 'fflate';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { readAgentFolder } from '../../client/agent-folder.ts';
import { checkAccess, describeSite } from './browser.ts';

const manifest = (name: string, more: object = {}) =>
  JSON.stringify({ name, type: 'tool', description: 'Says hello', required_secrets: [], ...more });

const zipOf = (files: Record<string, string>): Buffer =>
  Buffer.from(zipSync(Object.fromEntries(Object.entries(files).map(([path, text]) => [path, strToU8(text)]))));

/** Drops a file on the page, as from a desktop. */
async function drop(page: Page, name: string, bytes: Buffer): Promise<void> {
  const data = await page.evaluateHandle(`(() => {
    const data = new DataTransfer();
    const bytes = Uint8Array.from(atob('${bytes.toString('base64')}'), (sign) => sign.charCodeAt(0));
    data.items.add(new File([bytes], ${JSON.stringify(name)}));
    return data;
  })()`);
  await page.locator('[data-drop]').dispatchEvent('drop', { dataTransfer: data });
}

/** Drops a folder on the page, as a file manager does. */
async function dropFolder(page: Page, folder: string): Promise<void> {
  const { x, y } = (await page.locator('[data-drop]').boundingBox())!;
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: [folder], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, x: x + 40, y: y + 40, data });
  }
  await session.detach();
}

describeSite('publishing by drop', (site) => {
  test('a folder is shown, published as the command line packs it, and in the list', async () => {
    const name = `folder-${Date.now()}`;
    const files = {
      'agent.json': manifest(name, { bundle: { exclude: ['notes/'] } }),
      'schema.json': '{"input": {"type": "object"}}',
      'main.py': 'print("hello")\r\n',
      'lib/util.py': '',
      'lib/made.py': '',
      'lib/.gitignore': 'made.py',
      'notes/todo.txt': 'x',
      'tests/test_main.py': 'x',
      'node_modules/a/index.js': 'x',
      '.env': 'SECRET=made-up',
      'a<img src=x onerror=alert(1)>.py': '',
    };
    const folder = mkdtempSync(join(tmpdir(), 'publish-'));
    try {
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        writeFileSync(join(folder, path), text);
      }
      const page = await site.open('/acme/agents');
      await page.getByRole('button', { name: 'Publish a folder' }).waitFor();
      await page.getByLabel('Folder to publish').setInputFiles(folder);
      const dialog = page.getByRole('dialog');
      await dialog.getByText('4 files of code').waitFor();
      expect(await dialog.locator('li').allInnerTexts()).toEqual([
        expect.stringMatching(/^a<img src=x onerror=alert\(1\)>\.py/),
        expect.stringMatching(/^lib\/util\.py/),
        expect.stringMatching(/^main\.py/),
        expect.stringMatching(/^schema\.json/),
      ]);
      await checkAccess(page, () => dialog.getByText('4 files of code').waitFor());
      await dialog.getByRole('button', { name: 'Publish v1' }).click();
      await page.getByText(`${name} v1 was published`).waitFor();
      await page.getByRole('row', { name: new RegExp(name) }).waitFor();

      // Dropping the folder selects the same files.
      await dropFolder(page, folder);
      await dialog.getByText('4 files of code').waitFor();
      await dialog.getByRole('button', { name: 'Publish v2' }).waitFor();
      expect(await dialog.locator('li').count()).toBe(4);
      await page.keyboard.press('Escape');

      const packed = await readAgentFolder(folder);
      const [agent] = await site.client.listAgents({ query: { name } });
      const answer = (await site.client.downloadOwnBundle({ params: { id: agent!.id } })) as Response;
      expect(Buffer.from(await answer.arrayBuffer()).equals(packed.bundle!)).toBe(true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('a zip is dropped; what is wrong with it is said by field, and nothing is published', async () => {
    const name = `zipped-${Date.now()}`;
    const page = await site.open('/acme/agents');
    await page.getByRole('button', { name: 'Publish a zip' }).waitFor();
    await drop(
      page,
      'broken.zip',
      zipOf({ 'x/agent.json': manifest(name, { type: 'robot', timeout_seconds: -1 }), 'x/main.py': '' }),
    );
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^type/).waitFor();
    await dialog.getByText(/^timeout_seconds/).waitFor();
    expect(await dialog.getByRole('button', { name: 'Publish v1' }).isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    for (const [bytes, said] of [
      [Buffer.from('no zip'), /not a readable zip file/],
      [zipOf({ 'main.py': '' }), /agent\.json is missing/],
      [zipOf({ 'agent.json': '{' }), /agent\.json is not valid JSON/],
      [zipOf({ '../agent.json': manifest(name) }), /points outside of it/],
      [zipOf({ 'agent.json': manifest('<b>Wrong name</b>'), 'main.py': '' }), /^name/],
    ] as const) {
      await drop(page, 'x.zip', bytes);
      await dialog.getByText(said).first().waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    expect(await site.client.listAgents({ query: { name } })).toEqual([]);

    await drop(page, 'good.zip', zipOf({ 'x/agent.json': manifest(name), 'x/main.py': 'print(1)' }));
    await dialog.getByRole('button', { name: 'Publish v1' }).click();
    await page.getByRole('row', { name: new RegExp(name) }).waitFor();
    const skill = `skill-${Date.now()}`;
    await drop(
      page,
      's.zip',
      zipOf({ 'SKILL.md': `---\nname: ${skill}\ndescription: How we write.\n---\n\nBe brief.\n` }),
    );
    await dialog.getByRole('button', { name: 'Publish v1' }).click();
    await page.getByRole('row', { name: new RegExp(skill) }).waitFor();
  });

  test('a large file of a call goes ahead of it', async () => {
    const name = `files-${Date.now()}`;
    const page = await site.open('/acme/agents');
    const code = 'import json,sys\nprint(json.dumps({"size": json.load(sys.stdin)["files"][0]["size_bytes"]}))\n';
    await drop(page, 'x.zip', zipOf({ 'agent.json': manifest(name), 'main.py': code }));
    await page.getByRole('button', { name: 'Publish v1' }).click();
    await page.getByText(`${name} v1 was published`).waitFor();
    await page.goto(site.at(`/acme/agents/${name}`));
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Add files' }).click(),
    ]);
    await chooser.setFiles({
      name: 'big.bin',
      mimeType: 'application/octet-stream',
      buffer: Buffer.alloc(4_000_000, 1),
    });
    const ahead = page.waitForRequest((request) => request.url().endsWith('/uploads') && request.method() === 'POST');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await ahead;
    await page.getByText('4000000').first().waitFor();
  });
});

describeSite('the catalog', (site) => {
  test('public agents are found, tried and copied', async () => {
    const name = `public-${Date.now()}`;
    await site.client.createAgent({
      body: {
        name,
        type: 'prompt',
        description: 'Greets <b>people</b>',
        prompt: 'Greet {{name}}.',
        input_schema: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
        is_public: true,
        allow_local_download: true,
        supported_providers: ['anthropic'],
        required_secrets: [],
      },
    });
    const { workspace } = await site.client.getSession({});
    await site.client.putSecret({
      params: { workspace_id: workspace.id },
      body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' },
    });
    const page = await site.open('/acme/catalog');
    const row = page.getByRole('row', { name: new RegExp(name) });
    await row.getByText('Greets <b>people</b>').waitFor();
    await checkAccess(page, () => row.waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByLabel('Search the catalog').fill('nothing of this kind');
    await page.getByText('No public agent matches').waitFor();
    await page.getByLabel('Search the catalog').fill(name);
    await row.getByRole('link').click();
    await page.waitForURL(site.at(`/acme/catalog/acme/${name}`));

    site.target.llm.queue({ text: 'Hello, Ann.' });
    await page.getByLabel(/^name/).fill('Ann');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Hello, Ann.').waitFor();
    await page.getByRole('link', { name: 'About' }).click();
    await page.getByText('Greet {{name}}.').waitFor();
    // The reload clears the announcements of the run.
    await page.reload();
    await checkAccess(page, () => page.getByText('Greet {{name}}.').waitFor());
    await page.getByRole('link', { name: 'Fork' }).click();
    await page.getByLabel('Name of the copy').fill(`${name}-copy`);
    await page.getByRole('button', { name: 'Fork agent' }).click();
    await page.waitForURL(site.at(`/acme/agents/${name}-copy`));
  });

  test('an empty catalog says how to fill it, and an agent that is not public is not there', async () => {
    const page = await site.open('/acme/catalog?q=zzzz-none');
    await page.getByText('No public agent matches').waitFor();
    await page.goto(site.at('/acme/catalog/acme/none'));
    await page.getByText('NOT_FOUND').waitFor();
  });
});
