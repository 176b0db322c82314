import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { launchChromium } from '../../dashboard/test/chromium.ts';

/**
 * A chat front end for OpenAI's API as its users have it from PyPI, in front of an agent, in a real browser. Gradio was
 * chosen because it is one package that needs no database and no account.
 */
const CLIENTS = join(import.meta.dirname, 'clients');
const FOLDER = join(CLIENTS, 'node_modules/.gradio');
const PACKAGES = ['gradio==6.31.0', 'openai==3.57.0'];
const run = promisify(execFile);

let target: LocalTarget;
let server: ChildProcess;
let address: string;

beforeAll(async () => {
  const python = join(FOLDER, 'bin/python');
  const installed = join(FOLDER, '.installed');
  if (!existsSync(installed)) {
    await run('python3', ['-m', 'venv', FOLDER]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES]);
    writeFileSync(installed, PACKAGES.join('\n'));
  }
  target = await startLocalTarget();
  const client = clientOf(target);
  const { id } = await client.getOrg({});
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' };
  await client.putSecret({ params: { workspace_id: id }, body: secret });
  const agent = { name: 'helper', type: 'prompt', prompt: '{{message}}', description: 'chats' } as const;
  await client.createAgent({ body: { ...agent, supported_providers: ['anthropic'] } });
  server = spawn(python, [join(CLIENTS, 'gradio_chat.py'), 'acme/helper'], {
    env: {
      ...process.env,
      GRADIO_ANALYTICS_ENABLED: 'False',
      OPENAI_BASE_URL: `${target.url}/openai/v1`,
      OPENAI_API_KEY: target.key,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  [address] = (await once(createInterface({ input: server.stdout! }), 'line')) as [string];
}, 300_000);

afterAll(async () => {
  server?.kill();
  await target?.close();
});

test('Gradio shows the answer of an agent as it comes, and sends what was said before', async () => {
  await using browser = await launchChromium();
  const page = await browser.newPage();
  await page.goto(address);
  const say = async (text: string) => {
    await page.getByRole('textbox').first().fill(text);
    await page.keyboard.press('Enter');
  };
  // The scripted model reads its answer from what it is sent, and so gives the same one twice.
  const answer = page.getByText('Nobody but the two of us.', { exact: true });
  await say('Who is there? [[llm {"text":"Nobody but the two of us."}]]');
  await answer.first().waitFor();
  await say('And now?');
  await answer.nth(1).waitFor();
  const { text } = target.llm.requests.at(-1)!;
  for (const part of ['Who is there?', 'And now?']) expect(text).toContain(part);
}, 60_000);
