import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
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
  readonly runs: {
    readonly steps: { readonly if?: string; readonly run: string; readonly env: Record<string, string> }[];
  };
}

/** The token of a job. */
const TOKEN = 'ghs_of_a_job';
const BOT = { type: 'Bot', login: 'github-actions[bot]' };

/** Starts the part of GitHub's API that has the comments of a pull request. */
async function startGitHub() {
  const state = { mayWrite: true };
  const comments: { id: number; body: string; user: { type: string; login: string } }[] = [];
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://github');
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { body = '' } = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {};
    requests.push(`${request.method} ${pathname}`);
    const answer = (status: number, json: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(json));
    };
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return answer(401, {});
    const [, id] = /^\/repos\/acme\/agents\/issues\/comments\/(\d+)$/.exec(pathname) ?? [];
    const isList = pathname === '/repos/acme/agents/issues/12/comments';
    if (request.method === 'GET' && isList) {
      const [page, size] = [Number(searchParams.get('page')), Number(searchParams.get('per_page'))];
      return answer(200, comments.slice((page - 1) * size, page * size));
    }
    if (!state.mayWrite) return answer(403, { message: 'Resource not accessible by integration' });
    if (body.length > 65_536) return answer(422, {});
    if (request.method === 'POST' && isList) {
      comments.push({ id: comments.length + 1, body, user: BOT });
      return answer(201, {});
    }
    const own = comments.find((each) => String(each.id) === id);
    if (request.method !== 'PATCH' || own === undefined) return answer(404, {});
    own.body = body;
    answer(200, {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, comments, requests, state, close: () => server.close() };
}

/** Runs the steps of the action as a runner does, and returns its outputs, its summary and what it printed. */
async function runAction(inputs: Record<string, string>, env: Record<string, string>) {
  const action: Action = parse(readFileSync(join(ROOT, 'action/action.yml'), 'utf8'));
  const folder = tempFolder();
  const files = { GITHUB_OUTPUT: join(folder, 'output'), GITHUB_STEP_SUMMARY: join(folder, 'summary') };
  for (const file of Object.values(files)) writeFileSync(file, '');
  const outputsSoFar = (): Record<string, string> => {
    const lines = readFileSync(files.GITHUB_OUTPUT, 'utf8').split('\n').filter(Boolean);
    return Object.fromEntries(lines.map((line) => /^([^=]+)=(.*)$/.exec(line)!.slice(1, 3)));
  };
  const inputNamed = (name: string) => inputs[name] ?? action.inputs[name]!.default ?? '';
  const withInputs = (text: string) =>
    text
      .replaceAll(/\$\{\{ inputs\.(\w+) \}\}/g, (_, name: string) => inputNamed(name))
      .replaceAll(/\$\{\{ steps\.publish\.outputs\.(\w+) \}\}/g, (_, name: string) => outputsSoFar()[name]!)
      .replaceAll(/\$\{\{ github\.token \}\}/g, TOKEN);
  let printed = '';
  for (const step of action.runs.steps) {
    expect(step.run).not.toContain('${{');
    const [, needed] = /^inputs\.(\w+) == 'true'$/.exec(step.if ?? '') ?? [];
    expect(needed === undefined).toBe(step.if === undefined);
    if (needed !== undefined && inputNamed(needed) !== 'true') continue;
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
    const summary = readFileSync(files.GITHUB_STEP_SUMMARY, 'utf8');
    if (ended.code !== 0) return { code: ended.code, printed, outputs: outputsSoFar(), summary };
  }
  const outputs = outputsSoFar();
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

describe('the action with evals', () => {
  const command = `node ${join(ROOT, 'cli/main.ts')}`;
  const said = (text: string) => `[[llm ${JSON.stringify({ text })}]]`;
  const suite = (value: string) =>
    JSON.stringify({
      tests: [
        { description: 'greets <b>', vars: { text: said('Hello Ann') }, assert: [{ type: 'contains', value }] },
        { vars: { text: said('{}') }, assert: [{ type: 'is-json', value: 'file://checks/any.json' }] },
      ],
    });
  const evaluatedFolder = (value: string, prompt = 'Greet {{text}}') =>
    agentFolder(
      name,
      { prompt, supported_providers: ['anthropic'], required_secrets: undefined },
      { 'evals/first.yaml': suite(value), 'checks/any.json': '{}' },
    );
  let key: string;
  let name: string;
  let gitHub: Awaited<ReturnType<typeof startGitHub>>;
  const event = (content: object) => {
    const path = join(tempFolder(), 'event.json');
    writeFileSync(path, JSON.stringify(content));
    return {
      ...{ GITHUB_API_URL: gitHub.url, GITHUB_REPOSITORY: 'acme/agents', GITHUB_EVENT_PATH: path },
      ...runner.env,
    };
  };
  const act = (folder: string, env: Record<string, string>, more: Record<string, string> = {}) =>
    runAction({ url: target.url, workspace: 'main', folder, command, evals: 'true', key, ...more }, env);
  const pullRequest = () => event({ pull_request: { number: 12 } });

  beforeAll(async () => {
    const client = clientOf(target);
    const workspace_id = (await client.getOrg({})).id;
    await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-actions' } });
    key = (await client.createApiKey({ body: { name: 'evals', scope: 'run' } })).key;
  });
  beforeEach(async () => {
    // Another one for each try.
    name = `evaluated${crypto.randomUUID().slice(0, 8)}`;
    gitHub = await startGitHub();
    return () => gitHub.close();
  });

  test('a pull request has one comment, which later jobs update', { timeout: 120_000 }, async () => {
    const others = Array.from({ length: 120 }, (_, n) => ({ id: 1000 + n, body: `comment ${n}`, user: BOT }));
    const marker = `<!-- agent-platform-evals main/${name} -->`;
    // A person may have written a comment with the same marker.
    gitHub.comments.push({ id: 999, body: marker, user: { type: 'User', login: 'mallory' } }, ...others);
    const passed = await act(evaluatedFolder('Ann'), pullRequest(), { baseline: 'latest' });
    expect(passed, passed.printed).toMatchObject({ code: 0, outputs: { version: 'v1' } });
    const made = gitHub.comments.at(-1)!;
    expect(made.body.split('\n').slice(0, 2)).toEqual([marker, `### ✅ ${name}@v1: passed`]);
    expect(passed.summary).not.toContain(`${name}@v1: passed`);
    expect(passed.printed + made.body).not.toMatch(/sk_live_|ghs_|eyJ/);

    const failed = await act(evaluatedFolder('Bob', 'Greet {{text}} again'), pullRequest(), { baseline: 'latest' });
    expect(failed, failed.printed).toMatchObject({ code: 1, outputs: { version: 'v2' } });
    expect(gitHub.comments).toHaveLength(122);
    expect(made.body).toContain(`### ❌ ${name}@v2: failed`);
    expect(made.body).toContain('| against v1 | 0 of 2 runs are worse');
    expect(made.body).toContain('| greets &#60;b&#62; | ✗ | ✗ |');
    expect(gitHub.comments[0]).toMatchObject({ body: marker });
  });

  test('without a pull request the summary has the table', { timeout: 60_000 }, async () => {
    const passed = await act(evaluatedFolder('Ann'), event({ head_commit: {} }));
    expect(passed, passed.printed).toMatchObject({ code: 0 });
    expect(passed.summary).toContain(`${name}@v1: passed`);
    expect(gitHub.requests).toEqual([]);
  });

  test('a comment that is refused is a warning, and the verdict stands', { timeout: 60_000 }, async () => {
    gitHub.state.mayWrite = false;
    const failed = await act(evaluatedFolder('Bob'), pullRequest());
    expect(failed.code).toBe(1);
    expect(failed.printed).toContain(
      '::warning::The pull request got no comment, which needs the permission pull-requests: write',
    );
    expect(failed.summary).toContain(`${name}@v1: failed`);
  });

  test('what it lacks is said, and texts are no code', { timeout: 60_000 }, async () => {
    const without = await act(evaluatedFolder('Ann'), pullRequest(), { key: '' });
    expect(without).toMatchObject({
      code: 1,
      printed: expect.stringContaining('::error::The input evals needs the input key'),
    });
    const folder = agentFolder('unsuited');
    const none = await act(folder, pullRequest());
    expect(none).toMatchObject({ code: 5, printed: expect.stringContaining('No suites in') });
    const attack = await act(evaluatedFolder('Ann'), pullRequest(), { baseline: '$(touch attacked)' });
    expect(attack.code).toBe(5);
    expect(attack.printed).toContain('baseline');
  });
});
