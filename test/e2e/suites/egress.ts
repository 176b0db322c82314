import { beforeAll, describe, expect, test } from 'vitest';
import { streamCall } from '#test/helpers/events.ts';
import { type Answer, clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';
import { ask, serviceUser, shows } from '../service-user.ts';

/** A name that leads nowhere, and one that leads to the machine itself. */
const DATABASE = 'database.invalid:5432';
const LOOPBACK = 'localhost.localdomain:5432';

/** Opens a connection to each target by its name, and asks the proxy for it, which tells the reason of a refusal. */
const PROGRAM = `
import json, os, socket, sys, urllib.error, urllib.request

def connect(target):
    name, port = target.split(':')
    try:
        with socket.create_connection((name, int(port)), 20) as s:
            s.sendall(b'hello')
            try: return [s.getpeername()[0], s.recv(100).decode()]
            except ConnectionResetError: return [s.getpeername()[0], '']
    except socket.gaierror: return ['no such name']
    except OSError: return ['refused']

def reason(target):
    try: return urllib.request.urlopen('http://' + target, timeout=20).status
    except urllib.error.HTTPError as error: return error.read().decode()

targets = json.load(sys.stdin)["targets"]
print(json.dumps({"found": [connect(target) for target in targets], "reasons": [reason(target) for target in targets]}))
`;

/** Connections to databases and other servers (`docs/interface/egress.md`). */
export function egressSuite(target: () => Target, has: Languages): void {
  describe('egress', () => {
    let owner: TestUser;
    let other: TestUser;

    beforeAll(async () => {
      [owner, other] = await Promise.all([target().addUser('egress-owner'), target().addUser('egress-other')]);
    });

    const api = (method: string, path: string, json?: unknown, user = owner) =>
      request(target(), method, path, { key: user.key, json });
    const grant = (agent: string, egress: string[], user = owner) =>
      api('PUT', `/workspaces/${user.workspaceId}/grants/${agent}`, { version: 'all', egress }, user);
    const publish = (name: string, egress: string[], manifest: object = {}): Promise<Answer> =>
      api('POST', '/agents', { name, type: 'tool', description: 'x', required_secrets: [], egress, ...manifest });
    const run = (agent: string, targets: readonly string[], user = owner) =>
      api('POST', `/${agent}/v1/run`, { targets }, user);

    test('entries are names with ports', async () => {
      for (const [entry, problem] of [
        ['10.0.0.5:5432', 'must have a name instead of an address'],
        ['[::ffff:127.0.0.1]:5432', 'must have a name instead of an address'],
        ['*.example.com:5432', 'must be one host'],
        ['db.example.com:0', 'must have a port from 1 to 65535'],
        ['db.example.com:65536', 'must have a port from 1 to 65535'],
        ['mail.example.com:25', 'must not have the port 25'],
        ['localhost:5432', 'must not be the sandbox itself'],
      ] as const) {
        expectError(await publish('wrong', [entry]), 400, 'INVALID_INPUT', `egress[0]: ${problem}`);
        const refused = await grant('egress-owner/wrong', [entry]);
        expectError(refused, 400, 'INVALID_INPUT', `body.egress.0`);
      }
      const many = Array.from({ length: 21 }, (_, index) => `db${index}.example.com:5432`);
      expectError(await publish('wrong', many), 400, 'INVALID_INPUT', 'egress: must be at most 20');
      const asPrompt = { type: 'prompt', prompt: 'x' };
      expectError(await publish('wrong', [DATABASE], asPrompt), 400, 'INVALID_INPUT', 'egress: must be left out');
    });

    test('an agent with entries is published with a warning, and runs once an owner has allowed them', async () => {
      const client = clientOf(target(), owner.key);
      const wanted = [DATABASE, LOOPBACK.toUpperCase()];
      const listed = [DATABASE, LOOPBACK];
      const sorted = [...listed].sort();
      const request = `PUT /workspaces/${owner.workspaceId}/grants/egress-owner/reader with ${JSON.stringify({ version: 'all', secrets: [], scopes: [], egress: sorted })}`;
      const checked = await api('POST', '/agents/validate', {
        ...{ name: 'reader', type: 'tool', description: 'x', required_secrets: [], egress: wanted },
      });
      expect(expectOk(checked).warnings).toEqual([
        `egress: runs are refused until an owner of the workspace allows ${listed.join(', ')}: ${request}.`,
      ]);
      const { agent } = await publishCode(
        client,
        'reader',
        { 'main.py': PROGRAM },
        { egress: wanted, is_public: true },
      );
      expect(agent.egress).toEqual(listed);
      const error = expectError(await run('egress-owner/reader', []), 403, 'FORBIDDEN', listed.join(', '));
      expect(error.hint).toBe(`An owner of the workspace can allow it: ${request}`);

      const own = await api('PUT', `/workspaces/${owner.workspaceId}/grants/egress-owner/reader`, {
        ...{ version: 'all', scopes: ['tasks'], egress: listed },
      });
      expectError(own, 400, 'INVALID_INPUT', 'needs no grant of secrets and scopes');
      expectOk(await grant('egress-owner/reader', [DATABASE]));
      expectError(await run('egress-owner/reader', []), 403, 'FORBIDDEN', `connect to ${LOOPBACK}.`);
      const { grant: whole } = expectOk(await grant('egress-owner/reader', wanted));
      expect(whole).toMatchObject({ agent: 'egress-owner/reader', version: 'all', secrets: [], egress: sorted });
      const { entries } = expectOk(await api('GET', `/workspaces/${owner.workspaceId}/audit?operation=putGrant`));
      expect(entries[0].target).toMatchObject({ org: 'egress-owner', agent: 'reader', egress: sorted });

      // Another workspace has not allowed it, and its own grant counts for it alone.
      expectError(await run('egress-owner/reader', [], other), 403, 'FORBIDDEN', '"egress-other" has not allowed');
      expectOk(await grant('egress-owner/reader', listed, other));
      expectOk(await api('DELETE', `/workspaces/${owner.workspaceId}/grants/egress-owner/reader`));
      expectError(await run('egress-owner/reader', []), 403, 'FORBIDDEN', '"egress-owner" has not allowed');
      expectOk(await api('DELETE', `/workspaces/${other.workspaceId}/grants/egress-owner/reader`, undefined, other));
      expectError(await run('egress-owner/reader', [], other), 403, 'FORBIDDEN');
    });

    test.skipIf(!has.python)('names resolve in the sandbox, and lead to allowed addresses alone', async () => {
      const client = clientOf(target(), owner.key);
      await publishCode(client, 'dials', { 'main.py': PROGRAM }, { egress: [DATABASE, LOOPBACK] });
      expectOk(await grant('egress-owner/dials', [DATABASE, LOOPBACK]));
      const closed = ['database.invalid:5433', 'unlisted.invalid:5432'];
      const { data } = expectOk(await run('egress-owner/dials', [DATABASE, LOOPBACK, ...closed]));
      expect(data.found).toEqual([['127.80.0.1', ''], ['127.80.0.2', ''], ['refused'], ['no such name']]);
      for (const [index, name] of closed.entries()) {
        expect(data.reasons[index + 2]).toContain(`${name.split(':')[0]} was asked for at port`);
      }
    });

    test.skipIf(!has.python)('tools of a loop connect, too', async () => {
      needsModel(target());
      await api('PUT', `/workspaces/${owner.workspaceId}/secrets`, {
        name: 'ANTHROPIC_API_KEY',
        value: 'sk-ant-egress',
      });
      const turns = [
        { toolCalls: [{ name: 'look', input: {} }] },
        { echo: true, toolCalls: [{ name: 'submit_result', input: { result: 'seen' } }] },
      ];
      const custom_tools = [{ name: 'look', description: 'x', command: 'grep database.invalid /etc/hosts' }];
      const loop = { type: 'agent', prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`, custom_tools };
      expectOk(await publish('loops', [DATABASE], loop), 201);
      expectError(await run('egress-owner/loops', []), 403, 'FORBIDDEN', DATABASE);
      expectOk(await grant('egress-owner/loops', [DATABASE]));
      const { records } = await streamCall(target(), '/egress-owner/loops/v1/run', { key: owner.key, json: {} });
      const shown = JSON.stringify(await Array.fromAsync(records));
      expect(shown).toContain('127.80.0.1 database.invalid');
    });

    const isServed = { skip: target().services === undefined || !has.node, timeout: 240_000 };
    test('an always-on service connects, once it is allowed', isServed, async () => {
      const {
        user,
        slug,
        api: mine,
        publish: publishApp,
        deploy,
        addressOf,
      } = await serviceUser(target(), 'egress-app');
      const app = `require('node:http').createServer((request, response) => {
        require('node:dns').lookup('database.invalid', (error, address) => response.end(JSON.stringify({ address })));
      }).listen(process.env.PORT);`;
      await publishApp('app', { 'server.js': app }, { egress: [DATABASE] });
      const refused = await mine('POST', '/services', { agent: `${slug}/app` });
      expectError(refused, 403, 'FORBIDDEN', `has not allowed ${slug}/app@v1 to connect to ${DATABASE}`);
      expectOk(await grant(`${slug}/app`, [DATABASE], user));
      const address = await addressOf(await deploy({ agent: `${slug}/app` }));
      await shows(() => ask(target(), address), { status: 200, address: '127.80.0.1' });
    });
  });
}
