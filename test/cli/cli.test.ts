import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, signedInAt, tempFolder } from './command-line.ts';

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
});
afterAll(() => target?.close());

const signedIn = (settings?: Settings): Settings => signedInAt(target, settings);
const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedIn(settings));

function agentFolder(name: string, code: string, more: object = {}): string {
  const folder = tempFolder();
  const manifest = {
    name,
    type: 'tool',
    description: 'Greets',
    supported_providers: ['any'],
    required_secrets: [],
    runtime: { command: 'node main.js' },
    ...more,
  };
  writeFileSync(join(folder, 'agent.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, 'main.js'), code);
  return folder;
}

const GREET = `
let text = '';
process.stdin.on('data', (chunk) => (text += chunk)).on('end', () => {
  console.error('greeting');
  console.log(JSON.stringify({ greeting: 'Hello, ' + (JSON.parse(text || '{}').name ?? 'world') + '!' }));
});
`;

describe('signing in', () => {
  test('keeps the key in a file that only its owner reads, and forgets it', async () => {
    const configFolder = join(tempFolder(), 'config');
    const login = await commandLine(['login', '--with-key', '--url', target.url], {
      configFolder,
      stdin: `${target.key}\n`,
    });
    expect(login).toMatchObject({ status: 0, json: { profile: 'local', workspace: 'main' } });
    expect(login.stdout + login.stderr).not.toContain(target.key);
    expect(statSync(join(configFolder, 'profiles.json')).mode & 0o777).toBe(0o600);

    const who = await commandLine(['whoami'], { configFolder });
    expect(who.json).toMatchObject({ workspace: 'main', platform: target.url, key_from: 'profile local' });

    expect((await commandLine(['logout'], { configFolder })).status).toBe(0);
    expect(await commandLine(['whoami'], { configFolder })).toMatchObject({ status: 2 });
  });

  test('makes the profile that is named, with the address that is given', async () => {
    const settings = { configFolder: join(tempFolder(), 'config'), stdin: target.key };
    const line = ['login', '--with-key', '--profile', 'fresh', '--url', target.url];
    expect((await commandLine(line, settings)).json).toMatchObject({ profile: 'fresh', url: target.url });
    // A key is sent only to the address of its profile.
    expect((await commandLine(['whoami', '--profile', 'fresh'], settings)).json).toMatchObject({
      platform: target.url,
    });
    expect(await commandLine(['whoami', '--profile', 'other'], settings)).toMatchObject({ status: 1, stdout: '' });
  });

  test('with an invitation makes a user, and keeps the profile that was there', async () => {
    const configFolder = join(tempFolder(), 'config');
    await commandLine(['login', '--with-key', '--url', target.url], { configFolder, stdin: target.key });
    const owner = await target.addUser('inviting');
    const invite = async (email: string) => {
      const params = { workspace_id: owner.workspaceId };
      const made = await clientOf(target, owner.key).inviteMember({ params, body: { email, role: 'member' } });
      return made.invite.invite_url;
    };
    const link = await invite('grace@example.com');
    const shown = await commandLine(['invite', 'info'], { configFolder, stdin: `${link}\n` });
    expect(shown.json).toMatchObject({ email: 'grace@example.com', workspace: { slug: 'inviting' } });
    const joined = await commandLine(['invite', 'join', '--name', 'Grace'], { configFolder, stdin: link });
    expect(joined.json).toMatchObject({ profile: 'local-2', workspace: 'inviting', user: 'grace@example.com' });
    expect((await commandLine(['whoami'], { configFolder })).json).toMatchObject({ workspace: 'inviting' });
    const first = await commandLine(['whoami', '--profile', 'local'], { configFolder });
    expect(first.json).toMatchObject({ workspace: 'main' });

    // A key other than the profile's uses its own workspace.
    const other = { configFolder, env: { PLATFORM_API_KEY: target.key, PLATFORM_API_URL: target.url } };
    expect((await commandLine(['whoami'], other)).json).toMatchObject({ workspace: 'main' });

    const accepted = await commandLine(['invite', 'accept', '--profile', 'local'], {
      configFolder,
      // This is the link of a platform without a dashboard.
      stdin: (await invite('owner@example.com')).replace('/dashboard/invites/', '/invites/'),
    });
    expect(accepted.json).toMatchObject({ slug: 'inviting' });
    const foreign = await commandLine(['invite', 'info'], {
      configFolder,
      stdin: 'https://agents.example.com/invites/made-up',
    });
    expect(foreign).toMatchObject({ status: 5, stderr: expect.stringContaining('--url https://agents.example.com') });
    expect(await commandLine(['invite', 'info'], { configFolder, stdin: '' })).toMatchObject({ status: 5 });
  });

  /** Acts as a user on the page that the CLI opens. */
  const agree = async (url: string, form: Record<string, string> = { answer: 'agree', api_key: target.key }) => {
    const state = new URL(url).searchParams.get('state')!;
    const headers = { accept: 'text/html', 'sec-fetch-site': 'same-origin' };
    const body = new URLSearchParams({ state, ...form });
    const page = await (await fetch(`${target.url}/auth/cli`, { method: 'POST', headers, body })).text();
    const back = /content="0; url=([^"]+)"/.exec(page)?.[1]?.replaceAll('&amp;', '&');
    return back === undefined ? page : (await fetch(back)).text();
  };

  test('in the browser gets a key of its own, which signing out revokes', async () => {
    const configFolder = join(tempFolder(), 'config');
    const pages: Promise<string>[] = [];
    const settings = { configFolder, isTTY: true, columns: 80, env: { DISPLAY: ':0' } };
    const login = await commandLine(['login', '--json', '--url', target.url], {
      ...settings,
      openUrl(url) {
        // Requests of other senders to the same address are ignored.
        const { searchParams } = new URL(url);
        const stranger = 'http://127.0.0.1:8374/callback?token=foreign&state=wrong';
        pages.push(fetch(stranger).then(async ({ status }) => `${status} ${await agree(url)} ${searchParams.size}`));
      },
    });
    expect(login, login.stderr).toMatchObject({ status: 0, json: { workspace: 'main' } });
    expect(login.stderr).toContain(`${target.url}/auth/cli?state=`);
    expect(await pages[0]).toMatch(/^404 .*Signed in\./);
    const { profiles } = JSON.parse(readFileSync(join(configFolder, 'profiles.json'), 'utf8'));
    const { key } = profiles.local;
    expect(key).not.toBe(target.key);
    expect(login.stdout + login.stderr).not.toContain(key);
    expect(await commandLine(['whoami'], { configFolder })).toMatchObject({ status: 0, json: { workspace: 'main' } });

    expect((await commandLine(['logout'], { configFolder })).json).toMatchObject({ key_revoked: true });
    const env = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: key };
    expect((await commandLine(['whoami'], { env })).status).toBe(2);
  });

  test('in the browser may be refused', async () => {
    const configFolder = join(tempFolder(), 'config');
    const login = await commandLine(['login', '--url', target.url], {
      ...{ configFolder, isTTY: true, columns: 80, env: { DISPLAY: ':0' } },
      openUrl: (url) => void agree(url, { answer: 'refuse' }),
    });
    expect(login).toMatchObject({ status: 1, stderr: expect.stringContaining('denied') });
    expect((await commandLine(['profiles'], { configFolder })).json).toEqual([]);
  });

  test('a link that signs in is shown on a terminal alone', async () => {
    const opened: string[] = [];
    const hidden = await platform('open');
    expect([hidden.status, hidden.stdout]).toEqual([5, '']);
    expect(JSON.parse(hidden.stderr).error.hint).toMatch(/terminal.*platform keys create/);
    const shown = await platform('open', { columns: 80, env: { DISPLAY: ':0' }, openUrl: (url) => opened.push(url) });
    expect(shown.stdout.trim()).toMatch(/\/dashboard\/login#code=a[\w-]{43}$/);
    expect(opened).toEqual([shown.stdout.trim()]);
  });

  test('refuses a key that the platform does not know, and keeps nothing', async () => {
    const configFolder = join(tempFolder(), 'config');
    const login = await commandLine(['login', '--with-key', '--url', target.url], {
      configFolder,
      stdin: 'sk_live_made-up-and-wrong',
    });
    expect(login.status).toBe(2);
    expect((await commandLine(['profiles'], { configFolder })).json).toEqual([]);
  });

  test("sends a profile's key to no other address", async () => {
    const configFolder = join(tempFolder(), 'config');
    await commandLine(['login', '--with-key', '--url', target.url], { configFolder, stdin: target.key });
    const asked: string[] = [];
    const spy: typeof fetch = async (url, init) => {
      asked.push(`${url} ${new Headers(init?.headers).get('authorization')}`);
      throw new TypeError('fetch failed');
    };
    const who = await commandLine(['whoami', '--url', 'http://other.example.com'], { configFolder, fetch: spy });
    expect(who.status).toBe(2);
    expect(asked.join()).not.toContain(target.key);
    expect(JSON.parse(who.stderr).error.hint).toMatch(
      new RegExp(`profile "local" is only sent to ${target.url}.*login --url http://other.example.com`),
    );
  });

  test("sends a key of the environment to no profile's address, and says which of both is needed", async () => {
    const configFolder = join(tempFolder(), 'config');
    await commandLine(['login', '--with-key', '--url', target.url], { configFolder, stdin: target.key });
    const asked: string[] = [];
    const spy: typeof fetch = async (url) => {
      asked.push(new URL(String(url)).origin);
      return Response.json({ error: { code: 'UNAUTHORIZED', message: 'Invalid API key.' } }, { status: 401 });
    };
    const env = { PLATFORM_API_KEY: 'sk_live_made-up-elsewhere' };
    const who = await commandLine(['whoami'], { configFolder, env, fetch: spy });
    expect([who.status, new Set(asked)]).toEqual([2, new Set(['http://127.0.0.1:4280'])]);
    expect(JSON.parse(who.stderr).error.hint).toMatch(
      new RegExp(`PLATFORM_API_KEY is not sent to ${target.url}.*profile "local".*PLATFORM_API_URL`),
    );
    const own = await commandLine(['whoami'], { configFolder, env: { PLATFORM_API_KEY: target.key } });
    expect(own).toMatchObject({ status: 0, json: { platform: target.url, key_from: 'profile local' } });
  });

  test('refuses PLATFORM_URL, with the variable that is meant', async () => {
    const ended = await platform('whoami', { env: { PLATFORM_URL: 'http://other.example.com' } });
    expect(ended.status).toBe(5);
    expect(JSON.parse(ended.stderr).error.message).toMatch(/PLATFORM_URL.*PLATFORM_API_URL/);
  });
});

describe('exit statuses', () => {
  test.each([
    ['an unknown command, with the one that was meant', 'agnets list', 5, 'agents'],
    ['an unknown option', 'runs --statsu failed', 5, '--status'],
    ['a value that is no choice', 'runs --status done', 5, 'completed'],
    ['no such run', 'logs 0123456789', 4, ''],
    ['no such schedule', 'schedule info nothing', 4, 'nothing'],
    ['no such agent', 'run nothing', 4, ''],
    ['input that is no JSON', 'run hello --data {', 5, 'not valid JSON'],
    ['a file that is missing', 'run hello missing.json', 5, 'missing.json'],
    ['a number that is none', 'runs --limit many', 5, 'limit'],
    ['an unknown operation', 'api listNothing', 5, 'listNothing'],
    ['a folder that holds no agent', 'publish /', 5, 'agent.json'],
  ])('%s', async (_, line, status, words) => {
    const ended = await platform(line);
    expect(ended.status, ended.stderr).toBe(status);
    expect(ended.stdout).toBe('');
    const shown = JSON.parse(ended.stderr);
    expect(shown).toMatchObject({ exit_code: status, error: { message: expect.stringContaining(words) } });
  });

  test('nothing listens there: 9, with what to do', async () => {
    const ended = await commandLine(['whoami'], {
      env: { PLATFORM_API_URL: 'http://127.0.0.1:9', PLATFORM_API_KEY: 'sk_live_made-up' },
      columns: 80,
      fetch: () => Promise.reject(Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } })),
    });
    expect(ended.status).toBe(9);
    expect(ended.stderr).toMatch(
      /^error: Cannot connect to http:\/\/127\.0\.0\.1:9: ECONNREFUSED\.\nhint: {2}Start a platform/,
    );
    expect(ended.stderr).not.toMatch(/^\s+at /m);
  });

  test('something is deleted only after --yes where nobody can be asked', async () => {
    const ended = await platform('storage rm-ns notes');
    expect(ended.status).toBe(5);
    expect(ended.stderr).toContain('--yes');
  });
});

describe('an agent of a folder', () => {
  test('is published, called, watched and run again', async () => {
    const folder = agentFolder('hello', GREET);
    expect(await platform(`publish ${folder} --dry-run`)).toMatchObject({ status: 0, json: { dry_run: true } });
    const published = await platform(`publish ${folder}`);
    expect(published).toMatchObject({
      status: 0,
      json: { agent: { name: 'hello', version: 'v1' }, url: `${target.url}/main/hello/latest/run`, warnings: [] },
    });
    expect(published.stdout.length).toBeLessThan(700);
    expect(published.json).not.toHaveProperty('agent.manifest');
    const whole = await platform(`publish ${folder} --json`);
    const { service_key: _, ...shown } = published.json;
    expect(whole.json).toMatchObject({ ...shown, unchanged: true });
    expect(whole.json).toHaveProperty('agent.manifest');

    const ran = await commandLine(['run', 'hello', '--data', '{"name": "Ada"}'], signedIn());
    expect(ran).toMatchObject({ status: 0, json: { data: { greeting: 'Hello, Ada!' } } });
    expect(ran.stderr).toContain('greeting');

    const logs = await platform('logs hello', { columns: 80 });
    expect(logs.stdout).toMatch(/^hello@v\d+ completed after .*\nstdout\n.*\nstderr\ngreeting\noutput\n/);
    expect(await platform('dag hello')).toMatchObject({ status: 4, stderr: expect.stringContaining('no other agent') });
    expect(
      (await platform('trace hello')).json.events.map(({ event_type }: { event_type: string }) => event_type),
    ).toEqual(['setup_step_succeeded', 'sandbox_succeeded']);
    const replayed = await platform('replay hello');
    await expect
      .poll(async () => (await platform(`api getRun -p run_id=${replayed.json.run_id}`)).json.output_data)
      .toEqual({ greeting: 'Hello, Ada!' });
    expect((await platform('runs --agent-name hello')).json.runs).toHaveLength(2);
  });

  test('input comes from a file or stdin, and the answer goes to a file', async () => {
    const folder = agentFolder('filed', GREET);
    await platform(`publish ${folder}`);
    writeFileSync(join(folder, 'input.json'), '{"name": "Grace"}');
    await platform('run filed input.json --output answer.json', { cwd: folder });
    expect(JSON.parse(readFileSync(join(folder, 'answer.json'), 'utf8'))).toEqual({ greeting: 'Hello, Grace!' });
    const piped = await platform('run filed - --no-stream', { stdin: '{"name": "Alan"}' });
    expect(piped.json.data).toEqual({ greeting: 'Hello, Alan!' });
  });

  test('what it prints cannot steer the terminal', async () => {
    const hostile = String.raw`console.error('\u001b]0;owned\u0007\u001b[2Jred\u202e'); console.log(JSON.stringify('\u001b[31mfake prompt $ '))`;
    await platform(`publish ${agentFolder('hostile', hostile)}`);
    const ran = await platform('run hostile', { columns: 80 });
    expect(ran.status).toBe(0);
    const logs = await platform('logs hostile', { columns: 80 });
    for (const text of [ran.stdout, ran.stderr, logs.stdout]) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not come through.
      expect(text).not.toMatch(/[\u0000-\u0008\u001b\u0007\u202e]/);
    }
  });

  test('a failed run ends with a status of its own', async () => {
    await platform(`publish ${agentFolder('failing', 'process.exit(3)')}`);
    const ran = await platform('run failing');
    expect(ran.status).not.toBe(0);
    expect(JSON.parse(ran.stderr.trim().split('\n').at(-1)!)).toMatchObject({ error: { code: 'SANDBOX_ERROR' } });
  });

  test('a schedule whose input its agent refuses is warned of, on the error output', async () => {
    const input_schema = { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] };
    await platform(`publish ${agentFolder('placed', "console.log('{}')", { input_schema })}`);
    const create = ['schedule', 'create', 'main/placed', '--cron', '0 9 * * *'];
    const warned = await commandLine([...create, '--input', '-'], signedIn({ stdin: '{"place": 7}' }));
    expect(warned).toMatchObject({ status: 0, json: { schedule: { input_data: { place: 7 } } } });
    expect(warned.json.warnings).toHaveLength(1);
    expect(warned.stderr).toContain('warning: input_data does not match the input schema of main/placed@v1');
    const fine = await commandLine(['schedule', 'update', 'placed', '--input-data', '{"place":"Rome"}'], signedIn());
    expect(fine).toMatchObject({ status: 0, stderr: '' });
  });

  test('short options and those named as the API members are the same', async () => {
    await platform(`publish ${agentFolder('optioned', "console.log('{}')")}`);
    const short = ['--cron', '0 9 * * *', '--max-failures', '2', '--alert-after', '1'];
    const long = ['--cron-expression', '0 9 * * *', '--max-consecutive-failures', '2', '--alert-on-failure-count', '1'];
    for (const options of [short, long]) {
      const made = await commandLine(['schedule', 'create', 'main/optioned', ...options], signedIn());
      expect(made.json.schedule).toMatchObject({
        cron_expression: '0 9 * * *',
        max_consecutive_failures: 2,
        alert_on_failure_count: 1,
      });
    }
    const both = await commandLine(['schedule', 'create', 'main/optioned', ...short, ...long], signedIn());
    expect(both.status).toBe(5);
    expect(JSON.parse(both.stderr).error.message).toBe('Use either --cron or --cron-expression, not both.');
    const help = await platform('schedule create --help');
    expect(help.stdout).toContain('--cron <text>');
    expect(help.stdout).not.toContain('--cron-expression');
  });

  test('an agent that lacks secrets names the command that stores them', async () => {
    await platform(`publish ${agentFolder('lacking', "console.log('{}')", { required_secrets: ['MY_KEY'] })}`);
    const { stderr } = await platform('run lacking', { columns: 80 });
    expect(stderr).toContain('hint:  Add them with `platform secrets set MY_KEY`.');
  });

  test('a triggered schedule ends as its run does', async () => {
    const code = "process.stdin.on('data', (input) => process.exit(JSON.parse(input).status ?? 0)); console.log('{}');";
    await platform(`publish ${agentFolder('triggered', code)}`);
    const create = ['schedule', 'create', 'main/triggered', '--cron-expression', '0 9 * * *'];
    expect(await commandLine(create, signedIn())).toMatchObject({ status: 0 });
    expect(await platform('schedule trigger triggered')).toMatchObject({ status: 0, json: { status: 'success' } });
    const failed = await platform('schedule trigger triggered --body {"status":3}');
    expect(failed).toMatchObject({ status: 1, json: { status: 'error', error: expect.any(String) } });
    expect(JSON.parse(failed.stderr)).toMatchObject({
      error: { message: failed.json.error, hint: expect.stringContaining(failed.json.run_id.slice(0, 8)) },
    });
    const shown = await platform('schedule trigger triggered --body {"status":3}', { columns: 80 });
    expect(shown.stderr).toContain(`error: ${failed.json.error}`);
  });
});

describe('secrets', () => {
  test('come from stdin and are never shown', async () => {
    const value = 'made-up-secret-value';
    const set = await platform('secrets set WEATHER_KEY --verbose', { stdin: `${value}\n` });
    expect(set).toMatchObject({ status: 0, json: { created: true } });
    expect(set.stderr).toContain('PUT ');
    expect(set.stdout + set.stderr).not.toContain(value);
    expect(set.stdout + set.stderr).not.toContain(target.key);
    expect((await platform('secrets set EMPTY_KEY')).status).toBe(5);
  });

  test('come from stdin for -, never from an argument', async () => {
    const set = await platform('secrets set DASH_KEY -', { stdin: 'made-up\n' });
    expect(set).toMatchObject({ status: 0, json: { created: true } });
    const refused = await platform('secrets set DASH_KEY hush-hush');
    expect(refused.status).toBe(5);
    expect(refused.stderr).toContain('platform secrets set DASH_KEY - < key.txt');
    expect(refused.stdout + refused.stderr).not.toContain('hush-hush');
  });
});

test('model providers are set up with a key from stdin, listed and deleted', async () => {
  const set = await platform('providers set groq --default-model openai/gpt-oss-120b', { stdin: 'made-up-key\n' });
  expect(set).toMatchObject({ status: 0, json: { created: true, provider: { has_key: true } } });
  const own = await platform('providers set lab --base-url https://models.example.com/v1 --no-key');
  expect(own).toMatchObject({ status: 0, json: { provider: { base_url: 'https://models.example.com/v1' } } });
  const listed = await platform('providers list');
  expect(listed.json.providers).toMatchObject([
    { name: 'groq', has_key: true },
    { name: 'lab', has_key: false },
  ]);
  expect(set.stdout + set.stderr + listed.stdout).not.toContain('made-up-key');
  expect((await platform('providers set groq made-up-key')).stderr).toContain(
    'platform providers set groq - < key.txt',
  );
  for (const name of ['groq', 'lab']) expect((await platform(`providers delete ${name} --yes`)).status).toBe(0);
  expect((await platform('providers delete lab --yes')).stderr).toContain('has no provider');
});

test('memory is set, listed, shown, deleted and erased', async () => {
  const set = await platform('memory set guests/ann.md - --tenant cli', { stdin: 'Prefers mail.' });
  expect(set.json).toMatchObject({ name: 'guests/ann.md', version: 1, updated_by: 'cli' });
  const old = await platform('memory set guests/ann.md x --tenant cli --if-version 0');
  expect(old.stderr).toContain('has version 1, not version 0');
  const listed = (await platform('memory list --tenant cli --prefix guests/')).json;
  expect(listed.documents).toMatchObject([{ name: 'guests/ann.md' }]);
  expect((await platform('memory show guests/ann.md --tenant cli')).stdout).toContain('Prefers mail.');
  expect((await platform('memory show guests/ann.md')).stderr).toContain('The memory of the workspace');
  expect((await platform('memory tenants')).json.tenants).toContainEqual({ tenant_id: 'cli', documents: 1 });
  await platform('memory set b.md b --tenant cli');
  expect((await platform('memory delete b.md --tenant cli --yes')).status).toBe(0);
  expect((await platform('memory erase --tenant cli --yes')).json).toMatchObject({ documents_deleted: 1 });
});

test('runs are scored, listed by their scores and compared', async () => {
  const folder = agentFolder('scored', GREET);
  await platform('publish . --yes', { cwd: folder });
  const { run_id } = (await platform('run scored --data {} --detach')).json;
  const set = await platform(`scores set ${run_id} helpful 0.5 --comment Fine`);
  expect(set.json).toMatchObject({ name: 'helpful', source: 'api', value: 0.5, comment: 'Fine' });
  const label = await platform(`scores set ${run_id} tone kind --source judge`);
  expect(label.json).toMatchObject({ value: null, label: 'kind', source: 'judge' });
  expect((await platform(`scores show ${run_id.slice(0, 8)}`)).stdout).toContain('Fine');
  const listed = (await platform('scores list main/scored --max 0.5')).json;
  expect(listed.runs).toMatchObject([{ run_id, scores: [{ name: 'helpful' }] }]);
  const { points } = (await platform('scores series main/scored')).json;
  expect(points).toMatchObject([
    { name: 'helpful', mean: 0.5 },
    { name: 'tone', labels: [{ label: 'kind' }] },
  ]);
  expect((await platform(`scores set ${run_id} Helpful 1`)).stderr).toContain('begin with a letter');
  expect((await platform(`scores set ${run_id} helpful 2000000`)).stderr).toContain('body.value');
  expect((await platform(`scores delete ${run_id} helpful --yes`)).json).toMatchObject({ deleted: true });
  expect((await platform(`scores delete ${run_id} helpful --yes`)).status).toBe(4);
});

describe('- is stdin', () => {
  test('for a text, JSON and a file', async () => {
    const message = await commandLine(['message', 'send', 'Dash', '-'], signedIn({ stdin: 'Two\nlines\n' }));
    expect(message.json).toMatchObject({ title: 'Dash' });
    expect((await platform('message list')).json.messages[0]).toMatchObject({ title: 'Dash', body: 'Two\nlines' });
    const stored = await platform('storage put notes dash -', { stdin: '{"text": "rain"}' });
    expect(stored).toMatchObject({ status: 0 });
    await platform(`publish ${agentFolder('filed', GREET, { accepts_files: true })}`);
    const run = await platform('run filed --file -', { stdin: 'bytes' });
    expect(run.status, run.stderr).toBe(0);
  });

  test('once in a command', async () => {
    const twice = await platform('message send - -', { stdin: 'x' });
    expect(twice.status).toBe(5);
    expect(twice.stderr).toContain('use - once');
  });
});

describe('for people', () => {
  test.each([80, 120])('tables fit a terminal of %i columns', async (columns) => {
    const client = clientOf(target);
    await client.createTask({ body: { title: 'A very long title that goes on '.repeat(8), project: 'reports' } });
    const { stdout } = await platform('task list', { columns });
    expect(stdout.split('\n')[0]).toMatch(/^id +title/);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
  });

  test('agents are listed page by page, each with its versions and its last run', async () => {
    const bare = await platform('agents');
    const names: string[] = bare.json.map(({ name }: { name: string }) => name);
    expect(names).toContain('hello');
    expect(new Set(names).size).toBe(names.length);
    const first = await platform('agents --limit 1');
    expect(first.json.map(({ name }: { name: string }) => name)).toEqual([names[0]]);
    const second = await platform(`agents --cursor ${first.json[0].next_cursor}`);
    expect(second.json.map(({ name }: { name: string }) => name)).toEqual(names.slice(1));

    const shown = await platform('agents', { columns: 100 });
    expect(shown.stdout).toMatch(/^agent +latest +versions +type +last run \(UTC\) +status\n/);
    expect(shown.stdout).toMatch(/^hello +v\d+ +\d+ +tool +\d{4}-\d\d-\d\d \d\d:\d\d +completed$/m);
    const page = await platform('agents --limit 1', { columns: 100 });
    expect(page.stderr).toContain(`platform agents --limit 1 --cursor ${first.json[0].next_cursor}`);
    expect(await platform('agents --cursor wrong')).toMatchObject({ status: 5 });
  });

  test('another workspace is named by its slug', async () => {
    await clientOf(target).createWorkspace({ body: { name: 'Data Team' } });
    expect((await platform('workspace info --workspace data-team')).json).toMatchObject({ slug: 'data-team' });
    expect((await platform('workspace info --workspace nowhere')).status).toBe(5);
  });

  test('doctor says what is wrong', async () => {
    expect((await platform('doctor')).json).toMatchObject({ ok: true });
    const broken = await platform('doctor', { env: { PLATFORM_API_KEY: 'sk_live_made-up' } });
    expect(broken).toMatchObject({ status: 1, json: { ok: false } });
  });
});

describe('links to runs', () => {
  test('are created, listed and revoked', async () => {
    const client = clientOf(target);
    const { id: workspace_id } = await client.getOrg({});
    await publishCode(client, 'shared', { 'main.js': GREET }, { runtime: { command: 'node main.js' } });
    const params = { org: 'main', agent: 'shared', version: 'latest', endpoint: 'run' };
    await client.callAgent({ params, body: {} });
    const [run] = (await client.listRuns({ params: { workspace_id }, query: { agent_name: 'shared' } })).runs;
    const made = await platform(`share create ${run!.id.slice(0, 8)} --days 3`);
    expect(made.json).toMatchObject({ run_id: run!.id, url: expect.stringMatching(/\/dashboard\/share\/a[\w-]{43}$/) });
    expect(made.stderr).toContain(`Anyone who has the link can see run ${run!.id.slice(0, 8)} until `);
    const days = (Date.parse(made.json.expires_at) - Date.parse(made.json.created_at)) / (24 * 3600_000);
    expect(days).toBeCloseTo(3, 3);
    // A person gets the link alone.
    const shown = await platform(`share create ${run!.id}`, { columns: 100 });
    expect(shown.stdout).toMatch(/^http:\S+\n$/);
    const listed = await platform(`share list ${run!.id}`);
    expect(listed.json.shares).toHaveLength(2);
    expect((await platform(`share list ${run!.id}`, { columns: 100 })).stdout).toContain(made.json.id);
    for (const share of listed.json.shares) {
      const revoked = await platform(`share revoke ${run!.id} ${share.id} --yes`);
      expect(revoked.json).toEqual({ deleted: true, id: share.id });
    }
    expect((await platform(`share list ${run!.id}`)).json).toEqual({ shares: [] });
    expect(await platform(`share revoke ${run!.id} ${made.json.id} --yes`)).toMatchObject({ status: 4 });
    expect(await platform(`share revoke ${run!.id} ${made.json.id}`)).toMatchObject({ status: 5 });
    expect(await platform(`share create ${run!.id} --days soon`)).toMatchObject({ status: 5 });
    expect(await platform(`share create ${run!.id} --days 31`)).toMatchObject({ status: 5 });
  });
});

describe('the documentation', () => {
  const docs = (line: string, columns?: number) => commandLine(line.split(' '), { columns });

  test('is there without a network, each page with its title', async () => {
    const { json } = await docs('docs');
    expect(json).toContainEqual({ topic: 'interface/schedules', title: 'Schedules' });
    const page = await docs('docs schedules', 80);
    expect(page.stdout).toBe(readFileSync(join(import.meta.dirname, '../../docs/schedules.md'), 'utf8'));
    expect((await docs('docs shedules')).stderr).toContain('did you mean \\"schedules\\"');
  });
});
