import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { JOB, type JobIssuer, startJobIssuer } from '#test/helpers/job-tokens.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, signedInAt, tempFolder } from './command-line.ts';

/** Publishing from CI jobs, and the action of GitHub in `action/`. */
const ROOT = join(import.meta.dirname, '../..');

let target: LocalTarget;
let issuer: JobIssuer;
let runner: Awaited<ReturnType<typeof startRunner>>;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main', PLATFORM_SANDBOX_PRESTART: '0' });
  issuer = await startJobIssuer(target.url);
  runner = await startRunner();
  const params = { workspace_id: (await clientOf(target).getOrg({})).id };
  const body = { issuer: issuer.url, repository: JOB.repository, ref: 'refs/heads/main' };
  await clientOf(target).createTrust({ params, body });
});
afterAll(async () => {
  runner?.close();
  issuer?.close();
  await target?.close();
});

/** Starts what a runner of GitHub gives its jobs: an address that answers ID tokens to those who have its secret. */
async function startRunner() {
  const secret = crypto.randomUUID();
  const given: string[] = [];
  const state = { status: 200 };
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://runner');
    const isJob = request.headers.authorization === `Bearer ${secret}` && url.searchParams.get('api-version') === '2.0';
    const value = issuer.token({ aud: url.searchParams.get('audience') });
    if (isJob && state.status === 200) given.push(value);
    response.writeHead(isJob ? state.status : 401, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isJob && state.status === 200 ? { value } : {}));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    given,
    state,
    env: {
      GITHUB_ACTIONS: 'true',
      CI: 'true',
      ACTIONS_ID_TOKEN_REQUEST_URL: `http://127.0.0.1:${port}/token?api-version=2.0`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: secret,
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function agentFolder(name: string, more: object = {}, files: Record<string, string> = {}): string {
  const folder = tempFolder();
  const manifest = { name, type: 'prompt', description: 'Greets', prompt: 'Greet.', required_secrets: [], ...more };
  for (const [path, text] of Object.entries({ 'agent.json': JSON.stringify(manifest), ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const publish = (folder: string, env: Record<string, string>, ...more: string[]) =>
  commandLine(['publish', folder, '--trust', 'main', ...more], { env: { PLATFORM_API_URL: target.url, ...env } });

test('a job of GitHub publishes without a key', async () => {
  const folder = agentFolder('greeter', { required_secrets: ['SOME_KEY'] });
  const published = await publish(folder, runner.env);
  expect(published, published.stderr).toMatchObject({ status: 0 });
  expect(published.json).toMatchObject({
    agent: { org_slug: 'main', name: 'greeter', version: 'v1' },
    unchanged: false,
  });
  // The key may read neither secrets nor schedules, so nothing is said about them.
  expect(published.json).not.toHaveProperty('missing_secrets');
  expect(published.json).not.toHaveProperty('schedules_updated');
  expect(published.stdout + published.stderr).not.toMatch(/sk_live_|eyJ/);
  expect((await publish(folder, runner.env)).json).toMatchObject({ unchanged: true });
  const planned = await publish(agentFolder('planned'), runner.env, '--dry-run');
  expect(planned.json).toMatchObject({ next_version: 'v1', dry_run: true });
});

test('a program is uploaded', async () => {
  const manifest = { type: 'tool', prompt: undefined, runtime: { command: 'node main.js' } };
  const folder = agentFolder('program', manifest, { 'main.js': 'console.log("{}")' });
  const published = await publish(folder, runner.env);
  expect(published, published.stderr).toMatchObject({ status: 0, json: { agent: { runnable: true } } });
});

test('a job of another CI system has its token in a variable, which counts once', async () => {
  const env = { PLATFORM_ID_TOKEN: `${issuer.token()}\n` };
  expect(await publish(agentFolder('elsewhere'), env)).toMatchObject({ status: 0 });
  const again = await publish(agentFolder('elsewhere'), env);
  expect(again).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('does not trust this token') });
  expect(again.stderr).not.toContain('eyJ');
});

test('the audience is the address of the platform, or the one that is named', async () => {
  await publish(agentFolder('greeter'), runner.env);
  const [, content] = runner.given.at(-1)!.split('.');
  expect(JSON.parse(Buffer.from(content!, 'base64url').toString()).aud).toBe(target.url);
  const refused = await publish(agentFolder('greeter'), runner.env, '--audience', 'another');
  expect(refused).toMatchObject({ status: 2 });
});

test('what a job lacks is said', async () => {
  const folder = agentFolder('greeter');
  const without = await publish(folder, { GITHUB_ACTIONS: 'true' });
  expect(without).toMatchObject({ status: 2, stderr: expect.stringContaining('id-token: write') });
  const elsewhere = await publish(folder, {});
  expect(elsewhere).toMatchObject({ status: 2, stderr: expect.stringContaining('PLATFORM_ID_TOKEN') });
  runner.state.status = 500;
  const broken = await publish(folder, runner.env);
  runner.state.status = 200;
  expect(broken).toMatchObject({ status: 9, stderr: expect.stringContaining('status 500') });
  expect(broken.stderr).not.toContain(runner.env.ACTIONS_ID_TOKEN_REQUEST_TOKEN);
  const dev = await publish(folder, runner.env, '--dev');
  expect(dev).toMatchObject({ status: 5, stderr: expect.stringContaining('--trust') });
});

test('trusts are added, listed and deleted', async () => {
  const platform = (...line: string[]) => commandLine(['trusts', ...line], signedInAt(target));
  const claims = JSON.stringify({ project_path: 'acme/agents' });
  const made = await platform('add', '--issuer', 'https://gitlab.com', '--claims', claims, '--agents', 'one,two');
  expect(made, made.stderr).toMatchObject({ status: 0, json: { trust: { agents: ['one', 'two'] } } });
  const { id } = made.json.trust;
  const listed = await platform('list');
  expect(listed.json.trusts.map((each: { id: string }) => each.id)).toContain(id);
  expect(await platform('delete', id.slice(0, 8), '--yes')).toMatchObject({ status: 0 });
  const wrong = await platform('add', '--ref', 'refs/heads/main');
  expect(wrong).toMatchObject({ status: 5, stderr: expect.stringContaining('repository') });
});

interface Action {
  readonly inputs: Record<string, { readonly required?: boolean; readonly default?: string }>;
  readonly outputs: Record<string, { readonly value: string }>;
  readonly runs: { readonly steps: { readonly run: string; readonly env: Record<string, string> }[] };
}

/** Runs the steps of the action as a runner does, and returns its outputs, its summary and what it printed. */
async function runAction(inputs: Record<string, string>, env: Record<string, string>) {
  const action: Action = parse(readFileSync(join(ROOT, 'action/action.yml'), 'utf8'));
  const folder = tempFolder();
  const files = { GITHUB_OUTPUT: join(folder, 'output'), GITHUB_STEP_SUMMARY: join(folder, 'summary') };
  for (const file of Object.values(files)) writeFileSync(file, '');
  const withInputs = (text: string) =>
    text.replaceAll(
      /\$\{\{ inputs\.(\w+) \}\}/g,
      (_, name: string) => inputs[name] ?? action.inputs[name]!.default ?? '',
    );
  let printed = '';
  for (const step of action.runs.steps) {
    expect(step.run).not.toContain('${{');
    const own = Object.fromEntries(Object.entries(step.env).map(([name, value]) => [name, withInputs(value)]));
    const { HOME, PATH } = process.env as Record<string, string>;
    const all = { HOME, PATH: `${dirname(process.execPath)}:${PATH}`, ...env, ...files, ...own } as Record<
      string,
      string
    >;
    const options = { env: all, cwd: folder };
    const ended = await promisify(execFile)(
      'bash',
      ['--noprofile', '--norc', '-eo', 'pipefail', '-c', step.run],
      options,
    )
      .then(({ stdout, stderr }) => ({ text: stdout + stderr, code: 0 }))
      .catch((error) => ({ text: `${error.stdout}${error.stderr}`, code: error.code as number }));
    printed += ended.text;
    if (ended.code !== 0) return { code: ended.code, printed, outputs: {}, summary: '' };
  }
  const lines = readFileSync(files.GITHUB_OUTPUT, 'utf8').split('\n').filter(Boolean);
  const outputs = Object.fromEntries(lines.map((line) => /^([^=]+)=(.*)$/.exec(line)!.slice(1, 3)));
  expect(Object.keys(action.outputs).sort()).toEqual(Object.keys(outputs).sort());
  return { code: 0, printed, outputs, summary: readFileSync(files.GITHUB_STEP_SUMMARY, 'utf8') };
}

test('the action publishes, and says what', { timeout: 60_000 }, async () => {
  const command = `node ${join(ROOT, 'cli/main.ts')}`;
  const folder = agentFolder('acted');
  const inputs = { url: target.url, workspace: 'main', folder, command };
  const done = await runAction(inputs, { ...runner.env, PLATFORM_API_KEY: 'sk_live_of_somebody' });
  expect(done, done.printed).toMatchObject({ code: 0 });
  expect(done.outputs).toEqual({
    ...{ name: 'main/acted', version: 'v1', unchanged: 'false' },
    url: `${target.url}/main/acted/latest/run`,
  });
  expect(done.summary).toContain('### Published main/acted@v1');
  expect(done.printed + done.summary).not.toMatch(/sk_live_|eyJ/);
  expect((await runAction(inputs, runner.env)).outputs).toMatchObject({ version: 'v1', unchanged: 'true' });

  const pullRequest = { ...runner.env, GITHUB_EVENT_NAME: 'pull_request', GITHUB_REF_NAME: '12/merge' };
  expect((await runAction(inputs, pullRequest)).outputs).toMatchObject({
    ...{ version: 'v2', unchanged: 'false', url: `${target.url}/main/acted/pr-12/run` },
  });
  expect((await runAction({ ...inputs, preview: '' }, pullRequest)).outputs).toMatchObject({ version: 'v1' });
  const named = { ...inputs, preview: 'try $(touch attacked)' };
  expect((await runAction(named, runner.env)).printed).toContain('query.preview');

  const attack = { ...inputs, folder: '$(touch attacked); "`touch attacked`' };
  const refused = await runAction(attack, runner.env);
  expect(refused.code).not.toBe(0);
  expect(refused.printed).toContain('touch attacked');
});

test('the action fails where the workspace does not trust the job', { timeout: 60_000 }, async () => {
  const command = `node ${join(ROOT, 'cli/main.ts')}`;
  const inputs = { url: target.url, workspace: 'elsewhere', folder: agentFolder('acted'), command };
  const refused = await runAction(inputs, runner.env);
  expect(refused).toMatchObject({ code: 2, outputs: {} });
  expect(refused.printed).toContain('does not trust this token');
});
