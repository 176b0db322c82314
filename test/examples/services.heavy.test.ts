import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { type Client, createClient } from '#core/api/client.ts';
import { parseLocalConfig } from '#local/config.ts';
import { showService } from '#local/demo/demo-service.ts';
import { EXAMPLES_FOLDER, listExamples, publishExamples } from '#local/demo/examples.ts';
import { type LocalServer, startLocalServer } from '#local/server.ts';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';

const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
const PYTHONPATH = join(EXAMPLES_FOLDER, '..', 'sdk', 'python');
const has = (...program: string[]): boolean => spawnSync(program[0]!, program.slice(1)).status === 0;
const hasPython = has('python3', '--version');
const canRunReadme = hasPython && has('bash', '--version') && has('curl', '--version') && has('openssl', 'version');
/** Time limit for the start of a service on a busy machine. */
const TIMEOUT_MS = 120_000;

const services = listExamples().filter(({ isService }) => isService);
const isPython = ({ command }: (typeof services)[number]) => command!.startsWith('python3');

test('there is a service with a page, and a worker', () => {
  expect(services.map(({ name }) => name)).toEqual(['site-watch', 'webhook-chat']);
});

test.each(services)('$name: its own tests pass, as its author runs them', { timeout: TIMEOUT_MS }, (service) => {
  if (isPython(service) && !hasPython) return;
  const [program, ...args] = isPython(service) ? ['python3', '-m', 'unittest'] : ['node', '--test'];
  const { status, stdout, stderr } = spawnSync(program!, args, {
    cwd: join(EXAMPLES_FOLDER, service.name),
    env: { ...process.env, PATH, PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1' },
    encoding: 'utf8',
  });
  expect(status, `${stdout}${stderr}`).toBe(0);
});

test('npm run demo calls, deploys and ends', { timeout: TIMEOUT_MS }, async ({ skip }) => {
  const demo = join(EXAMPLES_FOLDER, '../local/demo/demo.ts');
  const ended = await promisify(execFile)(process.execPath, [demo], { env: { PATH, ...compileCacheVariable() } }).catch(
    (error) => error,
  );
  skip(
    /no sandbox works|could not be installed/.test(`${ended.stdout}${ended.stderr}`),
    'no sandbox or no npm registry',
  );
  expect([ended.code, ended.stderr]).toEqual([undefined, '']);
  for (const shown of [
    'main/csv-insights/latest/run',
    'The run waits for a person: it wants to call refund with {"order":"A-17","amount":250',
    '"refunded": 250',
    'localhost:',
    '/webhook',
    'a WebSocket',
    'npm run demo -- --stay',
  ]) {
    expect(ended.stdout).toContain(shown);
  }
});

describe('on the platform', { timeout: TIMEOUT_MS }, () => {
  let server: LocalServer;
  let client: Client;
  let key: string;
  let workspace: string;
  let problem: string | undefined;
  const folder = mkdtempSync(join(tmpdir(), 'platform-services-'));
  const until = <T>(look: () => T) => expect.poll(look, { timeout: 60_000, interval: 100 });

  beforeAll(async () => {
    server = await startLocalServer(
      parseLocalConfig({ PLATFORM_DATA: folder, PLATFORM_PORT: '0', PLATFORM_LOG_LEVEL: 'error' }),
    );
    problem = (await server.deps.sandbox.status()).problem;
    key = (await bootstrap(server.deps))!;
    client = createClient({ baseUrl: server.url, key });
    workspace = (await client.getOrg({})).id;
  });
  afterAll(async () => {
    await server?.close(true);
    rmSync(folder, { recursive: true, force: true });
  });

  test('the demo says what is missing before the examples are published', async () => {
    await expect(showService(server, key, () => {})).rejects.toThrow('examples/webhook-chat was not published');
    await publishExamples(server, () => {});
  });

  test('the demo shows webhook-chat, whose page is for those who know the password', async ({ skip }) => {
    skip(problem !== undefined, problem);
    const lines: string[] = [];
    const { url, password } = await showService(server, key, (line) => lines.push(line));
    expect(lines.join('\n')).toContain(`${url} answers`);
    const sent = JSON.parse(readFileSync(join(EXAMPLES_FOLDER, 'webhook-chat/sample-webhook.json'), 'utf8'));
    expect(lines.at(-1)).toBe(`  ${sent.from}: ${sent.text}`);

    const page = await ask(url, '/');
    expect(page.content).toContain('<label for="password">');
    expect(page.content).not.toContain(sent.text);
    expect(page.headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    );
    expect(page.content).not.toMatch(/ style=|<style|<script(?![^>]*src=)/);
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const logIn = (given: string) =>
      ask(
        url,
        '/login',
        { method: 'POST', headers: form },
        String(new URLSearchParams({ name: '<Ada>', password: given })),
      );
    expect(await logIn('wrong')).toMatchObject({
      status: 401,
      content: expect.stringContaining('This password is wrong.'),
    });
    const { status, headers } = await logIn(password);
    expect(status).toBe(303);
    const cookie = headers['set-cookie']![0]!;
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict$/);
    const chat = await ask(url, '/', { headers: { cookie: cookie.split(';')[0]! } });
    expect(chat.content).toContain('<label for="text">');
    expect(chat.content).toContain('&#60;Ada&#62;');
    for (const file of ['/page.css', '/page.js']) expect((await ask(url, file)).status).toBe(200);

    const upgrade = {
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'AAAA',
    };
    const own = { ...upgrade, cookie: cookie.split(';')[0]! };
    expect((await ask(url, '/socket', { headers: upgrade })).status).toBe(401);
    expect((await ask(url, '/socket', { headers: { ...own, origin: 'https://evil.example' } })).status).toBe(403);
    expect((await ask(url, '/webhook', { method: 'POST' }, '{"text": "unsigned"}')).status).toBe(401);
    // It ended none of this, and none of it ended it.
    const [service] = (await client.listServices({ params: { workspace_id: workspace } })).services;
    expect(service).toMatchObject({ service_name: 'webhook-chat', restart_count: 0 });

    // A new instance knows the messages.
    await client.restartService({ params: { workspace_id: workspace, service_id: service!.id } });
    const stored = await historyOf(`${server.url}/services/${service!.id}`, password);
    expect(stored).toMatchObject([{ kind: 'webhook', from: sent.from, text: sent.text }]);
  });

  test('site-watch tells when a site goes and comes', async ({ skip }) => {
    skip(problem !== undefined || !hasPython, problem ?? 'there is no python3 on this machine');
    const [site] = (await client.listServices({ params: { workspace_id: workspace } })).services;
    const params = { workspace_id: workspace, service_id: site!.id };
    const [agent] = (await client.listAgents({})).filter(({ name }) => name === 'site-watch');
    const { key: value } = await client.createServiceKey({ params: { id: agent!.id } });
    await client.putSecret({ params, body: { name: 'SITE_WATCH_KEY', value } });
    const address = `${server.url}/services/${site!.id}/`;
    const { service } = await client.deployService({
      params,
      body: { agent_name: 'site-watch', env: { SITES: `${address} ${server.url}/health`, INTERVAL_SECONDS: '1' } },
    });
    const stateOf = async () =>
      (await client.getDocument({ params: { namespace: 'site-watch', key: 'sites' } }).catch(() => undefined))?.value;
    const states = (of: string) => ({ [address]: { state: of }, [`${server.url}/health`]: { state: 'up' } });
    const messages = async () =>
      (await client.listMessages({})).messages.map(({ title, agent_name }) => [title, agent_name]);
    await until(stateOf).toMatchObject(states('up'));

    await client.updateService({ params, body: { desired_state: 'stopped' } });
    await until(stateOf).toMatchObject(states('down'));
    expect(await messages()).toEqual([['127.0.0.1 is down', 'site-watch']]);
    await client.restartService({ params });
    await until(stateOf).toMatchObject(states('up'));
    expect(await messages()).toEqual([
      ['127.0.0.1 is up again', 'site-watch'],
      ['127.0.0.1 is down', 'site-watch'],
    ]);
    const logs = async () =>
      (await client.listServiceLogs({ params: { ...params, service_id: service.id } })).logs
        .filter(({ message }) => message.includes(address))
        .map(({ severity }) => severity);
    await until(logs).toEqual(['WARNING', 'INFO']);
    for (const { id } of [service, site!]) await client.deleteService({ params: { ...params, service_id: id } });
  });

  test.each(services)('the commands in the README of $name work', async ({ name }) => {
    if (problem !== undefined || !canRunReadme) return;
    const blocks = [
      ...readFileSync(join(EXAMPLES_FOLDER, name, 'README.md'), 'utf8').matchAll(/```sh\n([\s\S]*?)```/g),
    ];
    expect(blocks.length).toBeGreaterThan(2);
    const lines = [
      'set -euo pipefail',
      'curl() { command curl --fail-with-body -sS "$@"; }',
      ...blocks.map(([, code]) => code),
    ];
    const env = { PATH, api: server.url, auth: `Authorization: Bearer ${key}`, ws: workspace };
    const { stdout } = await promisify(execFile)('bash', ['--norc', '--noprofile', '-c', lines.join('\n')], { env });
    expect(stdout).toContain('"deleted":true');
    if (name === 'webhook-chat') expect(stdout).toMatch(/\{"id":"msg_\d+"\}/);
  });
});

/** Browsers also resolve `*.localhost` to this machine. */
async function ask(address: string, path: string, options: RequestOptions = {}, body?: string) {
  const { host, port } = new URL(address);
  const asked = httpRequest({
    host: '127.0.0.1',
    port,
    path,
    agent: false,
    ...options,
    headers: { host, ...(options.headers as object) },
  });
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, headers: answer.headers, content: await text(answer) };
}

/** The messages that a page gets when it connects. */
async function historyOf(url: string, password: string): Promise<unknown> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/socket`, {
    headers: { authorization: `Bearer ${password}` },
  });
  const [{ data }] = await once(socket, 'message');
  socket.close();
  return JSON.parse(data).messages;
}
