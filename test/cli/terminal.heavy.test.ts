import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, tempFolder } from './command-line.ts';
import { noTerminal, typedCommand } from './terminal.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/** Interaction at a terminal: keys, questions, Ctrl-C. */

const CTRL_C = '\u0003';
const ENTER = '\r';
const SOON = { timeout: 30_000 };

let target: LocalTarget;
let env: Record<string, string>;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  env = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key };
});
afterAll(() => target?.close());

test.skipIf(noTerminal)('the keys of platform dev run, edit, test, show and end', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const folder = tempFolder();
  const manifest = {
    name: 'keyed',
    type: 'tool',
    description: 'x',
    supported_providers: ['any'],
    required_secrets: [],
  };
  writeFileSync(join(folder, 'agent.json'), JSON.stringify({ ...manifest, runtime: { command: 'sh run.sh' } }));
  writeFileSync(join(folder, 'run.sh'), 'echo "to the log" >&2; read -r input; echo "{\\"got\\": $input}"\n');
  writeFileSync(join(folder, 'sample-input.json'), '{"from": "sample"}');
  const editor = join(tempFolder(), 'editor.sh');
  writeFileSync(editor, 'echo \'{"from": "editor"}\' > "$1"\n');
  const dev = typedCommand(['dev', folder], { cwd: tempFolder(), env: { ...env, VISUAL: `sh ${editor}` } });
  await dev.shows('Keys: r i t l o c q');
  dev.type('l');
  await dev.shows('There are no runs yet.');
  dev.type('r');
  await dev.shows(/"got": \{\s+"from": "sample"/);
  await dev.shows(/run \w{8} keyed completed/);
  dev.type('l');
  await dev.shows('to the log');
  dev.type('i');
  await dev.shows(/"got": \{\s+"from": "editor"/);
  // The input of the last run stays.
  dev.type('r');
  await dev.shows(/"got": \{\s+"from": "editor"/);
  dev.type('t');
  await dev.shows('No fixtures');
  dev.type('o');
  await dev.shows(/\/dashboard\/login#code=a[\w-]{43}/);
  dev.type('c');
  dev.type('q');
  expect(await dev.ended).toBe(0);
});

test.skipIf(noTerminal)('q ends platform dev while a run that a key began is under way', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const folder = tempFolder();
  const manifest = { name: 'slow', type: 'tool', description: 'x', supported_providers: ['any'], required_secrets: [] };
  writeFileSync(join(folder, 'agent.json'), JSON.stringify({ ...manifest, runtime: { command: 'sh run.sh' } }));
  writeFileSync(join(folder, 'run.sh'), 'sleep 600\n');
  const dev = typedCommand(['dev', folder], { cwd: tempFolder(), env });
  await dev.shows('Keys:');
  dev.type('r');
  const [, runId] = /run (\w{8})/.exec(await dev.shows(/run \w{8} slow running/))!;
  dev.type('q');
  expect(await dev.ended).toBe(0);
  expect(await commandLine(['cancel', runId!, '--yes'], { env })).toMatchObject({ status: 0 });
});

test.skipIf(noTerminal)('platform init asks for the template and the name', async () => {
  const cwd = tempFolder();
  const init = typedCommand(['init'], { cwd, env: {} });
  await init.shows('Which template?');
  init.type('\u001b[B');
  await init.shows('a Node.js program');
  init.type(ENTER);
  await init.shows('Name of the agent');
  init.type(`asked-for${ENTER}`);
  await init.shows('Created asked-for');
  expect(await init.ended).toBe(0);
  expect(existsSync(join(cwd, 'asked-for/main.mjs'))).toBe(true);
});

test.skipIf(noTerminal)('Ctrl-C at a question changes nothing', async () => {
  const cwd = tempFolder();
  const init = typedCommand(['init'], { cwd, env: {} });
  await init.shows('Which template?');
  init.type(CTRL_C);
  await init.shows('Nothing was changed.');
  expect(await init.ended).toBe(130);
});

describe('with --json', () => {
  test.skipIf(noTerminal)('a terminal shows one JSON document and nothing else', async () => {
    const whoami = typedCommand(['whoami', '--json'], { cwd: tempFolder(), env });
    expect(await whoami.ended).toBe(0);
    expect(JSON.parse(whoami.screen())).toMatchObject({ workspace: 'main' });
  });

  // The endings show that no prompt was waiting, because nothing is typed.
  test.skipIf(noTerminal).for([
    ['storage rm-ns notes', '--yes'],
    ['secrets set TYPED', 'stdin'],
    ['invite info', 'stdin'],
    ['init', '--template'],
    ['login --no-browser', '--with-key'],
  ] as const)('nothing is asked: %s', async ([line, words]) => {
    const asking = typedCommand([...line.split(' '), '--json'], { cwd: tempFolder(), env });
    expect(await asking.ended).toBe(5);
    const { error } = JSON.parse(asking.screen());
    expect(`${error.message} ${error.hint}`).toContain(words);
  });
});

describe('secrets', () => {
  test.skipIf(noTerminal)('are asked for, and not shown', async () => {
    const set = typedCommand(['secrets', 'set', 'TYPED'], { cwd: tempFolder(), env });
    await set.shows('Value of TYPED');
    set.type(`hush-hush${ENTER}`);
    await set.shows('TYPED stored');
    expect(await set.ended).toBe(0);
    expect(set.screen()).not.toContain('hush');
  });

  test.skipIf(noTerminal)('login asks for the code of the page, and keeps a key that only the user reads', async () => {
    const cwd = tempFolder();
    const login = typedCommand(['login', '--no-browser', '--url', target.url], { cwd, env: {} });
    const url = (await login.shows(/http\S+\/auth\/cli\?state=\S+/)).trim();
    const state = new URL(url).searchParams.get('state')!;
    const page = await fetch(`${target.url}/auth/cli`, {
      method: 'POST',
      headers: { accept: 'text/html', 'sec-fetch-site': 'same-origin' },
      body: new URLSearchParams({ state, answer: 'agree', api_key: target.key }),
    });
    const code = /<code class="token"[^>]*>([^<]+)<\/code>/.exec(await page.text())![1]!;
    await login.shows('Sign-in code');
    login.type(`${code}${ENTER}`);
    await login.shows('Signed in to');
    expect(await login.ended).toBe(0);
    expect(login.screen()).not.toContain(code);
    const { profiles } = JSON.parse(readFileSync(join(cwd, '.config/agent-platform/profiles.json'), 'utf8'));
    expect(login.screen()).not.toContain(profiles.local.key);
  });
});

test.skipIf(noTerminal)(
  'Ctrl-C leaves a run alone and says how to cancel it, a second one cancels it',
  async (context) => {
    context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
    const client = clientOf(target);
    const { id: workspace_id } = await client.getOrg({});
    await publishCode(
      client,
      'endless',
      { 'run.sh': 'echo begun >&2; sleep 600' },
      { runtime: { command: 'sh run.sh' } },
    );
    const statusOf = async (short: string) => {
      const { runs } = await client.listRuns({ params: { workspace_id }, query: { limit: 50 } });
      return runs.find(({ id }) => id.startsWith(short))?.status;
    };
    const interrupted = async () => {
      const run = typedCommand(['run', 'endless'], { cwd: tempFolder(), env });
      await run.shows('begun');
      run.type(CTRL_C);
      const said = await run.shows(/The run continues: .* To cancel it, press Ctrl-C again, or run .*\./);
      return { run, id: /platform cancel (\w{8})/.exec(said)![1]! };
    };
    const left = await interrupted();
    expect(await left.run.ended).toBe(130);
    expect(await statusOf(left.id)).toBe('running');
    const cancelled = await interrupted();
    cancelled.run.type(CTRL_C);
    await cancelled.run.shows(`Cancelled run ${cancelled.id}.`);
    expect(await cancelled.run.ended).toBe(130);
    await expect.poll(() => statusOf(cancelled.id), SOON).toBe('cancelled');
    expect(await commandLine(['cancel', left.id, '--yes'], { env })).toMatchObject({ status: 0 });
  },
);
