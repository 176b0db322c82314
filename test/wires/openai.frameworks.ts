import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { installPackages } from '../../scripts/install-packages.ts';
import { blocksOf } from '../docs/pages.ts';

/** OpenAI's own clients, as their users have them from npm and PyPI, against a platform with scripted models. */
const CLIENTS = join(import.meta.dirname, 'clients');
const PYTHON_PACKAGES = ['openai==3.57.0'];
const INSTALL_MS = 300_000;
const run = promisify(execFile);
// Python loads the client for seconds.
vi.setConfig({ testTimeout: 60_000 });

let target: LocalTarget;

beforeAll(async () => {
  target = await startLocalTarget();
  const client = clientOf(target);
  const { id } = await client.getOrg({});
  await client.putSecret({
    params: { workspace_id: id },
    body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' },
  });
  const common = { description: 'tests clients', supported_providers: ['anthropic'] };
  await client.createAgent({ body: { ...common, name: 'helper', type: 'prompt', prompt: '{{message}}' } });
  await client.createAgent({ body: { ...common, name: 'poet', type: 'prompt', prompt: 'Write about {{topic}}.' } });
  const turns = [
    { text: 'I look first.', toolCalls: [{ name: 'list_files', input: { path: '.' } }] },
    { thinking: 'Nothing there.', text: 'There are no files.' },
  ];
  await client.createAgent({
    body: {
      ...common,
      name: 'looker',
      type: 'agent',
      prompt: `Look around. [[llm ${JSON.stringify(turns)}]]`,
      required_secrets: [],
      loop: {},
    },
  });
});
afterAll(() => target.close());

const says = (text: string, turn: object): string => `${text} [[llm ${JSON.stringify(turn)}]]`;

describe('openai of npm', () => {
  // biome-ignore lint/suspicious/noExplicitAny: the package is installed by this test, and its types with it.
  let openai: any;

  beforeAll(async () => {
    installPackages(CLIENTS);
    const { default: OpenAI } = await import(join(CLIENTS, 'node_modules/openai/index.mjs'));
    openai = new OpenAI({ baseURL: `${target.url}/openai/v1`, apiKey: target.key, maxRetries: 0 });
  }, INSTALL_MS);

  const messages = [{ role: 'user', content: says('hello', { text: 'One two three.' }) }];

  test('lists models and finds one by its name', async () => {
    const ids: string[] = [];
    for await (const { id } of openai.models.list()) ids.push(id);
    expect(ids).toEqual(expect.arrayContaining(['acme/helper', 'acme/looker']));
    expect(await openai.models.retrieve('acme/helper@v1')).toMatchObject({ object: 'model', owned_by: 'acme' });
  });

  test('chats, complete and streamed', async () => {
    const whole = await openai.chat.completions.create({ model: 'acme/helper', messages });
    expect(whole.choices[0].message.content).toBe('One two three.');
    const stream = openai.chat.completions.stream({
      model: 'acme/helper',
      messages,
      stream_options: { include_usage: true },
    });
    const deltas: string[] = [];
    stream.on('content', (delta: string) => deltas.push(delta));
    expect(await stream.finalContent()).toBe('One two three.');
    expect(deltas.join('')).toBe('One two three.');
    expect(await stream.totalUsage()).toMatchObject({ total_tokens: expect.any(Number) });
  });

  test('gets responses, complete, streamed, and streamed on after a break', async () => {
    const input = messages[0]!.content;
    const whole = await openai.responses.create({ model: 'acme/helper', input });
    expect(whole.output_text).toBe('One two three.');
    const stream = openai.responses.stream({ model: 'acme/helper', input });
    const types = new Set<string>();
    for await (const { type } of stream) types.add(type);
    expect(types).toContain('response.output_text.delta');
    const final = await stream.finalResponse();
    expect(final.output_text).toBe('One two three.');
    expect(await openai.responses.retrieve(final.id)).toMatchObject({ id: final.id, status: 'completed' });
    const rest = openai.responses.stream({ response_id: final.id, starting_after: 4 });
    expect((await rest.finalResponse()).output_text).toBe('One two three.');
    const items: unknown[] = [];
    for await (const item of openai.responses.inputItems.list(final.id)) items.push(item);
    expect(items).toHaveLength(1);
  });

  test('streams what a loop thinks and says between its tools', async () => {
    const stream = openai.responses.stream({ model: 'acme/looker', input: 'Look.' });
    const { output } = await stream.finalResponse();
    expect(output.map(({ type, phase }: { type: string; phase?: string }) => phase ?? type)).toEqual([
      'commentary',
      'reasoning',
      'message',
    ]);
    expect(output.at(-1).content[0].text).toBe('There are no files.');
    const whole = await openai.responses.create({ model: 'acme/looker', input: 'Look.' });
    expect(whole.output_text).toBe('There are no files.');
    const chunks = await openai.chat.completions.create({
      model: 'acme/looker',
      messages: [{ role: 'user', content: 'Look.' }],
      stream: true,
    });
    let text = '';
    let thoughts = '';
    for await (const { choices } of chunks) {
      text += choices[0]?.delta.content ?? '';
      thoughts += choices[0]?.delta.reasoning_content ?? '';
    }
    expect({ text, thoughts }).toEqual({ text: 'I look first.\n\nThere are no files.', thoughts: 'Nothing there.' });
  });

  test('runs in the background, and cancels', async () => {
    const input = says('think', { text: 'Never.', delayMs: 60_000 });
    const { id, status } = await openai.responses.create({ model: 'acme/helper', input, background: true });
    expect(status).toBe('in_progress');
    expect((await openai.responses.cancel(id)).status).toBe('cancelled');
  });

  test('runs the program of the page', async () => {
    expect(await runOfPage('js', process.execPath, join(CLIENTS, 'node_modules/page.mjs'))).toBe('ok');
  });

  test('throws its own errors, and repeats only what may be repeated', async () => {
    const { default: OpenAI } = await import(join(CLIENTS, 'node_modules/openai/index.mjs'));
    const failed = (promise: Promise<unknown>) =>
      promise.then(
        () => expect.fail('no error'),
        (error) => error,
      );
    const unknown = await failed(openai.chat.completions.create({ model: 'acme/nobody', messages }));
    expect(unknown).toBeInstanceOf(OpenAI.NotFoundError);
    expect(unknown).toMatchObject({ code: 'model_not_found', param: 'model' });
    const stranger = new OpenAI({ baseURL: `${target.url}/openai/v1`, apiKey: 'sk-made-up' });
    expect(await failed(stranger.models.list())).toBeInstanceOf(OpenAI.AuthenticationError);
    const before = target.llm.requests.length;
    const patient = new OpenAI({ baseURL: `${target.url}/openai/v1`, apiKey: target.key, maxRetries: 2 });
    const refused = [{ role: 'user', content: says('hi', { status: 400, message: 'no' }) }];
    const stream = patient.chat.completions.stream({ model: 'acme/helper', messages: refused });
    expect(await failed(stream.finalContent())).toMatchObject({ code: 'llm_error' });
    expect(target.llm.requests.length).toBe(before + 1);
  });
});

/** Runs the program of the page about this wire, on a platform whose workspace is not `main`. */
async function runOfPage(language: string, command: string, file: string): Promise<string> {
  const { text } = blocksOf('docs/openai.md').find(({ info }) => info === language)!;
  writeFileSync(file, text.replaceAll('main/poet', 'acme/poet'));
  const env = { ...process.env, OPENAI_BASE_URL: `${target.url}/openai/v1`, OPENAI_API_KEY: target.key };
  return (await run(command, [file], { env })).stdout;
}

describe('openai of PyPI', () => {
  const folder = join(CLIENTS, 'node_modules/.python');
  const python = join(folder, 'bin/python');

  beforeAll(async () => {
    const installed = join(folder, '.installed');
    if (existsSync(installed)) return;
    await run('python3', ['-m', 'venv', folder]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PYTHON_PACKAGES]);
    writeFileSync(installed, PYTHON_PACKAGES.join('\n'));
  }, INSTALL_MS);

  test('does the same', async () => {
    const env = { ...process.env, OPENAI_BASE_URL: `${target.url}/openai/v1`, OPENAI_API_KEY: target.key };
    const { stdout } = await run(python, [join(CLIENTS, 'openai_client.py')], { env });
    expect(JSON.parse(stdout)).toEqual({
      models: ['acme/helper', 'acme/looker', 'acme/poet'],
      chat: 'One two three.',
      chat_stream: 'One two three.',
      response: 'One two three.',
      response_stream: 'One two three.',
      resumed: 'One two three.',
      cancelled: 'cancelled',
      error: ['NotFoundError', 'model_not_found'],
    });
  });

  test('runs the program of the page', async () => {
    expect(await runOfPage('python', python, join(CLIENTS, 'node_modules/page.py'))).toBe('ok\nok');
  });
});
