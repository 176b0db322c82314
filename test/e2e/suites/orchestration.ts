import { beforeAll, describe, expect, test } from 'vitest';
import { newRunKey } from '#core/accounts/service-keys/key-format.ts';
import type { Client } from '#core/api/client.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { type Answer, bundleForm, clientOf, publishCode, request, type Target, zipOf } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';
import type { Languages } from '../languages.ts';

/**
 * Sends the requests in its input with Python's standard library only. `$NAME` in their fields stands for a variable of
 * the run. Its answer has the run's variables reversed, because masking would hide the run's key.
 */
const PROGRAM = `
import concurrent.futures, json, os, sys, urllib.error, urllib.request
E = os.environ

def fill(value):
    if isinstance(value, str) and value.startswith("$"):
        return E[value[1:]]
    if isinstance(value, dict):
        return {name: fill(each) for name, each in value.items()}
    return [fill(each) for each in value] if isinstance(value, list) else value

def send(call):
    call = fill(call)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + call.get("key", E["PLATFORM_SERVICE_KEY"])}
    if not call.get("plain"):
        headers.update({
            "X-Platform-Call-Chain": E["PLATFORM_CALL_CHAIN"],
            "X-Platform-Call-Chain-Sig": E["PLATFORM_CALL_CHAIN_SIG"],
            "X-Platform-Billing-Org-Id": E["PLATFORM_BILLING_ORG_ID"],
            "X-Platform-Billing-Org-Sig": E["PLATFORM_BILLING_ORG_SIG"],
            "X-Platform-Max-Hops": str(int(E["PLATFORM_MAX_HOPS"]) - 1),
            "X-Platform-Downstream-Remaining": E["PLATFORM_DOWNSTREAM_REMAINING"],
            "X-Platform-Deadline-Ms": E["PLATFORM_DEADLINE_MS"],
            "X-Platform-Root-Run-Id": E["PLATFORM_ROOT_RUN_ID"],
            "X-Platform-Request-Id": E["PLATFORM_REQUEST_ID"],
        })
    for name, value in call.get("headers", {}).items():
        headers.pop(name, None)
        if value is not None:
            headers[name] = value
    method = call.get("method", "POST")
    data = None if method == "GET" else json.dumps(call.get("json", {})).encode()
    request = urllib.request.Request(E["PLATFORM_GATEWAY_URL"] + call["path"], data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            answer = {"status": response.status, "body": json.load(response)}
            if "reads" in call:
                paths = [path.replace("RUN", answer["body"]["run_id"]) for path in call["reads"]]
                answer["reads"] = [send({"path": path, "method": "GET"}) for path in paths]
            return answer
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": json.load(error)}

calls = json.load(sys.stdin).get("calls", [])
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    results = list(pool.map(send, calls))
shown = {name: value[::-1] for name, value in E.items() if name.startswith("PLATFORM_")}
print(json.dumps({"results": results, "env": shown}))
`;

interface SubCall {
  readonly path: string;
  /** Whether to omit the chain headers. */
  readonly plain?: boolean;
  /** Headers that replace the SDK's; null omits one. */
  readonly headers?: Record<string, string | null>;
  readonly key?: string;
  readonly method?: string;
  readonly json?: unknown;
  /** Paths that are read after the answer; `RUN` in them stands for its run. */
  readonly reads?: readonly string[];
}
type Result = Pick<Answer, 'status' | 'body'>;
interface Output {
  readonly results: readonly (Result & { readonly reads?: readonly Result[] })[];
  readonly env: Record<string, string>;
}

/** Returns the program's answer with its variables restored. */
function outputOf({ body, status }: Pick<Answer, 'status' | 'body'>): Output {
  expect(status, JSON.stringify(body)).toBe(200);
  const env = Object.entries(body.data.env as Record<string, string>);
  return { ...body.data, env: Object.fromEntries(env.map(([name, value]) => [name, [...value].reverse().join('')])) };
}
const codes = ({ results }: Output): string[] => results.map(({ body }) => body.error?.code ?? 'ok');

/** Agents that call agents; most tests need a sandbox with Python. */
export function orchestrationSuite(target: () => Target, { python: hasPython }: Languages): void {
  test('service keys are made, listed, checked and revoked', async () => {
    const client = clientOf(target());
    const call = (key: string, path: string) => request(target(), 'POST', path, { key, json: {} });
    const prompt = (name: string, more: object = {}) =>
      client.createAgent({ body: { name, type: 'prompt', description: 'x', prompt: 'x', ...more } });
    await prompt('quiet');
    await prompt('unrelated');
    const dependencies = [{ id: 'acme/quiet', version: 'v1' }];
    const {
      agent,
      service_key: first,
      service_key_prefix,
    } = await prompt('foreman', {
      manifest: { manifest_version: 1, max_hops: 1, timeout_ms: 1000, dependencies },
    });
    const params = { id: agent.id };
    expect(first!.slice(0, 12)).toBe(service_key_prefix);
    const { key: second } = await client.createServiceKey({ params });
    const { keys } = await client.listServiceKeys({ params });
    expect(keys.map(({ prefix }) => prefix).sort()).toEqual([first!, second].map((key) => key.slice(0, 12)).sort());

    for (const key of [first!, second]) {
      expectError(await call(key, '/acme/unrelated/v1/run'), 403, 'DEPENDENCY_NOT_ALLOWED');
      expectError(await request(target(), 'GET', '/api-keys', { key }), 403, 'FORBIDDEN');
    }
    for (const { id } of keys) await client.deleteServiceKey({ params: { ...params, key_id: id } });
    for (const key of [first!, second]) expectError(await call(key, '/acme/quiet/v1/run'), 401, 'UNAUTHORIZED');

    const { id: workspaceId } = await client.getOrg({});
    const invented = newRunKey(new SystemIds(), { workspaceId, runId: crypto.randomUUID() });
    expectError(await call(invented, '/acme/quiet/v1/run'), 401, 'UNAUTHORIZED');
    const { service_key: third } = await prompt('foreman', {
      manifest: { manifest_version: 1, max_hops: 1, timeout_ms: 1000, dependencies },
    });
    await client.deleteAgent({ params, query: { mode: 'all_versions' } });
    expectError(await call(third!, '/acme/quiet/v1/run'), 401, 'UNAUTHORIZED');
  });

  describe.skipIf(!hasPython)('agents that call agents (skipped without Python in the sandbox)', () => {
    const LEAF = '/acme/leaf/v1/run';
    const MID = '/acme/mid/v1/run';
    let client: Client;
    let workspaceId: string;
    let other: TestUser;
    let topKey: string | undefined;

    const files = { 'main.py': PROGRAM };
    const pins = (...ids: string[]) => ids.map((id) => ({ id, version: 'v1' }));
    const manifest = (dependencies: string[], more: object = {}) => ({
      manifest: { manifest_version: 1, max_hops: 5, timeout_ms: 60_000, dependencies: pins(...dependencies), ...more },
    });
    const publish = (by: Client, name: string, dependencies: string[] = [], more: object = {}, members: object = {}) =>
      publishCode(by, name, files, {
        ...(dependencies.length > 0 && manifest(dependencies, more)),
        ...members,
      });
    const send = (path: string, key: string, json: unknown, headers: Record<string, string> = {}) =>
      request(target(), 'POST', path, { key, json, headers });
    /** Calls `top`, which sends these calls. */
    const top = async (calls: readonly SubCall[], headers: Record<string, string> = {}): Promise<Output> =>
      outputOf(await send('/acme/top/v1/run', target().key, { calls }, headers));
    /** Calls `top`, which calls `mid`, which sends these calls. */
    const mid = async (calls: readonly SubCall[], headers: Record<string, string> = {}): Promise<Output> =>
      outputOf((await top([{ path: MID, json: { calls } }], headers)).results[0]!);

    beforeAll(async () => {
      client = clientOf(target());
      other = await target().addUser('orchestra');
      workspaceId = (await client.getOrg({})).id;
      await publish(client, 'leaf');
      await publish(client, 'lone');
      await publish(client, 'mid', ['acme/leaf']);
      const { agent, service_key } = await client.createAgent({
        body: {
          name: 'top',
          type: 'tool',
          description: 'x',
          required_secrets: [],
          ...manifest(['acme/mid', 'acme/leaf'], { per_call_downstream_cap: 3 }),
        },
      });
      topKey = service_key;
      await client.uploadBundle({ params: { id: agent.id }, body: bundleForm(zipOf(files)) });
    });

    test('every run of a chain knows its callers, and limits only shrink on the way down', async () => {
      const before = Date.now();
      const answer = await send('/acme/top/v1/run', target().key, {
        calls: [
          { path: MID, json: { calls: [{ path: LEAF }] } },
          { path: LEAF, plain: true },
        ],
      });
      const first = outputOf(answer);
      const second = outputOf(first.results[0]!);
      const third = outputOf(second.results[0]!);
      const beside = outputOf(first.results[1]!);
      const root = answer.headers.get('x-run-id');
      expect([first, second, third, beside].map(({ env }) => env.PLATFORM_CALL_CHAIN)).toEqual([
        'acme/top@v1',
        'acme/top@v1,acme/mid@v1',
        'acme/top@v1,acme/mid@v1,acme/leaf@v1',
        'acme/top@v1,acme/leaf@v1',
      ]);
      for (const { env } of [first, second, third, beside]) {
        expect(env).toMatchObject({
          PLATFORM_ROOT_RUN_ID: root,
          PLATFORM_BILLING_ORG_ID: workspaceId,
          PLATFORM_SERVICE_KEY: expect.stringMatching(/^sk_agent_[a-z]\w{93}$/),
          PLATFORM_REQUEST_ID: expect.stringMatching(/^req_[0-9a-f]{32}$/),
        });
        expect(Number(env.PLATFORM_DEADLINE_MS)).toBeGreaterThan(before);
        expect(Number(env.PLATFORM_DEADLINE_MS)).toBeLessThanOrEqual(Number(first.env.PLATFORM_DEADLINE_MS));
      }
      const hops = [first, second, third].map(({ env }) => env.PLATFORM_MAX_HOPS);
      expect(hops).toEqual(['5', '4', '3']);
      expect(new Set([first, second, third, beside].map(({ env }) => env.PLATFORM_SERVICE_KEY)).size).toBe(4);
    });

    test('the run tree is the same for every run of a chain', async () => {
      const answer = await send('/acme/top/v1/run', target().key, {
        calls: [{ path: MID, json: { calls: [{ path: LEAF }] } }, { path: LEAF }],
      });
      const root = answer.headers.get('x-run-id')!;
      const dagOf = async (id: string) =>
        expectOk(await request(target(), 'GET', `/workspaces/${workspaceId}/runs/${id}/dag`, { key: target().key }));
      const dag = await dagOf(root);
      expect(dag).toMatchObject({
        root_run_id: root,
        is_live: false,
        node_count: 4,
        active_count: 0,
        completed_count: 4,
        failed_count: 0,
        tree: { run_id: root, agent_name: 'top' },
      });
      const { children } = dag.tree;
      expect(children.map(({ agent_name: name }: { agent_name: string }) => name).sort()).toEqual(['leaf', 'mid']);
      const mid = children.find(({ agent_name: name }: { agent_name: string }) => name === 'mid');
      expect(mid.children).toMatchObject([{ agent_name: 'leaf', status: 'completed', children: [] }]);
      expect(await dagOf(mid.children[0].run_id)).toEqual(dag);
    });

    test('cancelling a run ends its sub-calls', async () => {
      await publishCode(client, 'sleeper', { 'main.py': 'import time\ntime.sleep(600)' });
      await publish(client, 'waiter', ['acme/sleeper']);
      const json = { calls: [{ path: '/acme/sleeper/v1/run' }] };
      const { run_id: root } = expectOk(
        await send('/acme/waiter/v1/run', target().key, json, { prefer: 'respond-async' }),
        202,
      );
      const path = `/workspaces/${workspaceId}/runs/${root}`;
      const dag = async () => (await request(target(), 'GET', `${path}/dag`, { key: target().key })).body;
      await expect.poll(dag).toMatchObject({ is_live: true, active_count: 2 });
      expectOk(await request(target(), 'DELETE', path, { key: target().key }));
      await expect
        .poll(dag)
        .toMatchObject({ is_live: false, tree: { status: 'cancelled', children: [{ status: 'cancelled' }] } });
    });

    test('a caller who cancels a sub-call of a paid agent that has shown its output pays for it', async () => {
      const [author, buyer] = await Promise.all([target().addUser('shows-first'), target().addUser('reads-all')]);
      const by = clientOf(target(), author.key);
      await publishCode(by, 'sleeper', { 'main.py': 'import time\ntime.sleep(600)' }, { is_public: true });
      const shows = `import sys
sys.path.insert(0, "/home/user/helpers")
from agent_platform import AgentClient
print("All that there is to know.", flush=True)
AgentClient().call_sync("shows-first/sleeper@v1", {})
`;
      const dependencies = [{ id: 'shows-first/sleeper', version: 'v1' }];
      await publishCode(
        by,
        'oracle',
        { 'main.py': shows },
        {
          is_public: true,
          pricing_mode: 'per_call',
          price_per_call_cents: 25,
          manifest: { manifest_version: 1, max_hops: 1, timeout_ms: 60_000, dependencies },
        },
      );
      await target().grantCredits('reads-all', 60);
      const get = async (path: string) => expectOk(await request(target(), 'GET', path, { key: buyer.key }));
      const runs = `/workspaces/${buyer.workspaceId}/runs`;
      const { run_id: id } = expectOk(
        await send('/shows-first/oracle/v1/run', buyer.key, {}, { prefer: 'respond-async' }),
        202,
      );
      const children = async () => (await get(`${runs}/${id}/dag`)).tree.children;
      await expect.poll(children, { timeout: 30_000 }).toMatchObject([{ status: 'running' }]);
      const [{ run_id: below }] = await children();
      expectOk(await request(target(), 'POST', `${runs}/${below}/cancel`, { key: buyer.key }));
      await expect.poll(() => get(`${runs}/${id}`), { timeout: 30_000 }).toMatchObject({ status: 'failed' });
      await expect.poll(() => get('/billing/balance')).toMatchObject({ balance_cents: 35 });
    });

    test('the key of a run is masked in records and answers', async () => {
      const { agent } = await publishCode(client, 'teller', {
        'main.py': 'import json, os\nprint(json.dumps({"key": os.environ["PLATFORM_SERVICE_KEY"]}))',
      });
      const body = expectOk(await send('/acme/teller/v1/run', target().key, {}));
      expect(body.data).toEqual({ key: '[secret PLATFORM_SERVICE_KEY]' });
      expect(JSON.stringify(await client.listAgentLogs({ params: { id: agent.id } }))).not.toContain('sk_agent_');
    });

    test('only declared dependencies can be called, at their exact versions', async () => {
      const paths = [
        '/acme/lone/v1/run',
        '/acme/leaf/latest/run',
        '/acme/top/v1/run',
        '/acme/leaf/v2/run',
        '/acme/none/v1/run',
      ];
      const output = await top(paths.flatMap((path) => [{ path }, { path, plain: true }]));
      const refused = ['DEPENDENCY_NOT_ALLOWED', 'DEPENDENCY_NOT_ALLOWED'];
      expect(codes(output)).toEqual([...refused, ...refused, ...refused, ...Array(4).fill('NOT_FOUND')]);
      expect(output.results[0]!.body.error.message).toContain('acme/mid@v1, acme/leaf@v1');
    });

    test('a forged or incomplete chain or billing organization is refused', async () => {
      const forged: Record<string, string | null>[] = [
        { 'X-Platform-Call-Chain': 'acme/leaf@v1' },
        { 'X-Platform-Call-Chain': '' },
        { 'X-Platform-Call-Chain-Sig': '0'.repeat(64) },
        { 'X-Platform-Call-Chain-Sig': null },
        { 'X-Platform-Billing-Org-Id': other.workspaceId },
        { 'X-Platform-Billing-Org-Sig': '$PLATFORM_CALL_CHAIN_SIG' },
        { 'X-Platform-Billing-Org-Id': null, 'X-Platform-Billing-Org-Sig': null },
        { 'X-Platform-Billing-Org-Sig': null },
        { 'X-Workspace-Id': other.workspaceId },
        { 'X-Workspace-Id': workspaceId },
      ];
      const output = await top(forged.map((headers) => ({ path: LEAF, headers })));
      expect(codes(output)).toEqual([
        ...Array(6).fill('FORBIDDEN'),
        'MISSING_BILLING_ORG',
        'MISSING_BILLING_ORG',
        'FORBIDDEN',
        'ok',
      ]);
      expect(output.results.slice(0, 9).map(({ status }) => status)).toEqual(Array(9).fill(403));
    });

    test("another run's key brings the rights of that run alone", async () => {
      const headers = {
        'X-Platform-Call-Chain': '$PLATFORM_CALL_CHAIN',
        'X-Platform-Call-Chain-Sig': '$PLATFORM_CALL_CHAIN_SIG',
        'X-Platform-Billing-Org-Id': '$PLATFORM_BILLING_ORG_ID',
        'X-Platform-Billing-Org-Sig': '$PLATFORM_BILLING_ORG_SIG',
      };
      // `mid` mixes the credentials of `top` with its own: key of `top` with own headers, own key with headers of
      // `top`, and the key of `top` alone.
      const { results } = await top([
        {
          path: MID,
          json: {
            calls: [
              { path: LEAF, key: '$PLATFORM_SERVICE_KEY' },
              { path: LEAF, headers },
              { path: MID, key: '$PLATFORM_SERVICE_KEY', plain: true },
              { path: MID, plain: true },
            ],
          },
        },
      ]);
      expect(codes(outputOf(results[0]!))).toEqual(['FORBIDDEN', 'FORBIDDEN', 'ok', 'DEPENDENCY_NOT_ALLOWED']);
    });

    test('the key of an ended run is refused', async () => {
      const { env } = await top([]);
      expectError(await send(LEAF, env.PLATFORM_SERVICE_KEY!, {}), 401, 'UNAUTHORIZED', 'its run or service has ended');
    });

    test('max hops: the smallest limit of the chain holds', async () => {
      const deep = [{ path: MID, json: { calls: [{ path: LEAF, headers: { 'X-Platform-Max-Hops': '99' } }] } }];
      const hops = (n: number) => ({ 'x-platform-max-hops': String(n) });
      expect(codes(await top([{ path: MID, plain: true }], hops(0)))).toEqual(['MAX_HOPS_EXCEEDED']);
      const one = await top([{ ...deep[0]!, headers: { 'X-Platform-Max-Hops': '99' } }], hops(1));
      expect(codes(outputOf(one.results[0]!))).toEqual(['MAX_HOPS_EXCEEDED']);
      expect(codes(await mid([{ path: LEAF }], hops(2)))).toEqual(['ok']);
      await publish(client, 'needy', ['acme/leaf'], { min_required_hops: 2 });
      const needy = await send('/acme/needy/v1/run', target().key, {}, hops(1));
      expectError(needy, 400, 'MAX_HOPS_TOO_LOW', 'at least 2');
    });

    test('budget: a sub-call makes at most the calls that its caller allows', async () => {
      const five = Array.from({ length: 5 }, () => ({
        path: LEAF,
        headers: { 'X-Platform-Downstream-Remaining': '999' },
      }));
      const output = await mid(five);
      expect(codes(output).sort()).toEqual(['BUDGET_EXCEEDED', 'BUDGET_EXCEEDED', 'ok', 'ok', 'ok']);
      expect(output.results.find(({ status }) => status !== 200)).toMatchObject({
        status: 429,
        body: { error: { is_retryable: false, message: expect.stringContaining('acme/mid@v1') } },
      });
      // The top agent's own limit applies to its sub-calls, not to itself.
      expect(codes(await top(five))).toEqual(Array(5).fill('ok'));
    });

    test('deadline: a later one than the chain’s is cut, a past one is TIMEOUT', async () => {
      const deadline = Date.now() + 30_000;
      const { results, env } = await top(
        [
          { path: LEAF, headers: { 'X-Platform-Deadline-Ms': String(deadline + 3_600_000) } },
          { path: LEAF, plain: true },
          { path: LEAF, headers: { 'X-Platform-Deadline-Ms': String(deadline - 60_000) } },
        ],
        { 'x-platform-deadline-ms': String(deadline) },
      );
      expect(env.PLATFORM_DEADLINE_MS).toBe(String(deadline));
      expect(outputOf(results[0]!).env.PLATFORM_DEADLINE_MS).toBe(String(deadline));
      expect(outputOf(results[1]!).env.PLATFORM_DEADLINE_MS).toBe(String(deadline));
      expect(results[2]).toMatchObject({ status: 504, body: { error: { code: 'TIMEOUT' } } });
    });

    test('the key of a run reads the runs that it started and their events, and nothing else of runs', async () => {
      const runs = `/workspaces/${workspaceId}/runs`;
      const earlier = await send(LEAF, target().key, {});
      const own = `${runs}/RUN`;
      const answer = await send('/acme/top/v1/run', target().key, {
        calls: [
          {
            path: LEAF,
            headers: { Prefer: 'respond-async' },
            reads: [own, `${own}/events`, runs, `${own}/logs`, `${own}/trace`, `${own}/waterfall`],
          },
          {
            path: LEAF,
            reads: [`${runs}/${earlier.headers.get('x-run-id')}`, `/workspaces/${other.workspaceId}/runs/RUN`],
            headers: { Prefer: 'respond-async' },
          },
        ],
      });
      const [first, second] = outputOf(answer).results;
      const [run, events, ...others] = first!.reads!;
      expect(run).toMatchObject({
        status: 200,
        body: { id: first!.body.run_id, parent_run_id: answer.headers.get('x-run-id'), agent_name: 'leaf' },
      });
      expect(events).toMatchObject({ status: 200, body: { is_over: expect.any(Boolean) } });
      const types: string[] = events!.body.events.map(({ type }: { type: string }) => type);
      expect(types.filter((type) => type !== 'progress' && type !== 'end')).toEqual([]);
      expect(others.map(({ status }) => status)).toEqual(others.map(() => 403));
      expect(second!.reads!.map(({ body }) => body.error.code)).toEqual(['NOT_FOUND', 'FORBIDDEN']);
    });

    test('a service key may only make calls', async () => {
      const { agent } = await publish(client, 'climber');
      const attempts: SubCall[] = [
        { path: '/api-keys', method: 'GET' },
        { path: '/api-keys', json: { name: 'mine' } },
        { path: '/agents', method: 'GET' },
        { path: `/agents/${agent.id}/keys` },
        { path: `/agents/${agent.id}`, method: 'DELETE' },
        { path: `/workspaces/${workspaceId}/secrets`, method: 'GET' },
        { path: '/users/me', method: 'GET' },
      ];
      const output = await top(attempts.flatMap((attempt) => [attempt, { ...attempt, plain: true }]));
      for (const { status, body } of output.results) {
        expect(body.error).toMatchObject({ code: 'FORBIDDEN', message: expect.stringContaining('Service keys') });
        expect(status).toBe(403);
      }
    });

    test("another workspace's public agent may call its own private agent, at the caller's cost", async () => {
      const theirs = clientOf(target(), other.key);
      await publish(theirs, 'hidden');
      const open = await publish(theirs, 'open', ['orchestra/hidden']);
      await theirs.updateAgent({ params: { id: open.agent.id }, body: { is_public: true } });
      const hidden = '/orchestra/hidden/v1/run';
      expectError(await send(hidden, target().key, {}), 403, 'FORBIDDEN');
      const output = outputOf(await send('/orchestra/open/v1/run', target().key, { calls: [{ path: hidden }] }));
      expect(outputOf(output.results[0]!).env.PLATFORM_BILLING_ORG_ID).toBe(workspaceId);
      // Other workspaces cannot declare the agent, because a run has no user whose membership could count.
      await target().addMember(other, workspaceId);
      await expect(publish(theirs, 'reacher', ['acme/leaf'])).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    });

    test('agents whose dependencies form a circle cannot be published', async () => {
      await publish(client, 'ring-a');
      await publish(client, 'ring-b', ['acme/ring-a']);
      await expect(publish(client, 'ring-a', ['acme/ring-b'])).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('acme/ring-a -> acme/ring-b@v1 -> acme/ring-a@v1'),
      });
      await publish(client, 'shy', [], {}, { callable: false });
      await expect(publish(client, 'pushy', ['acme/shy'])).rejects.toMatchObject({
        message: expect.stringContaining('"callable" is false'),
      });
    });

    describe('static keys', () => {
      const keysOf = (id: string) => client.listServiceKeys({ params: { id } });

      test('are made with the first version that has dependencies, and start chains', async () => {
        expect(topKey).toMatch(/^sk_agent_[a-z]\w{50}$/);
        const [agent] = (await client.listAgents({})).filter(({ name }) => name === 'top');
        const { keys } = await keysOf(agent!.id);
        expect(keys).toEqual([
          {
            id: expect.stringMatching(UUID),
            prefix: topKey!.slice(0, 12),
            created_at: expect.stringMatching(ISO_TIME),
            last_used_at: null,
          },
        ]);
        const called = outputOf(await send(MID, topKey!, { calls: [{ path: LEAF }] }));
        expect(called.env).toMatchObject({ PLATFORM_CALL_CHAIN: 'acme/top@v1,acme/mid@v1', PLATFORM_MAX_HOPS: '4' });
        expect(codes(called)).toEqual(['ok']);
        expectError(await send('/acme/lone/v1/run', topKey!, {}), 403, 'DEPENDENCY_NOT_ALLOWED');
        const forged = { 'x-platform-call-chain': 'x', 'x-platform-call-chain-sig': 'y' };
        expectError(await send(LEAF, topKey!, {}, forged), 403, 'MISSING_BILLING_ORG');
        expectError(await send(LEAF, topKey!, {}, { 'x-workspace-id': other.workspaceId }), 403, 'FORBIDDEN');
        expectError(await request(target(), 'GET', '/agents', { key: topKey! }), 403, 'FORBIDDEN');
        expect((await keysOf(agent!.id)).keys[0]!.last_used_at).toMatch(ISO_TIME);
      });

      test('can be made and revoked, and end with their agent', async () => {
        const body = {
          name: 'keyed',
          type: 'tool',
          description: 'x',
          required_secrets: [],
          ...manifest(['acme/leaf']),
        };
        const { agent, service_key: first } = await client.createAgent({ body });
        const again = await client.createAgent({ body });
        expect(again.service_key).toBeUndefined();
        const params = { id: again.agent.id };
        const { key: second, prefix } = await client.createServiceKey({ params });
        expect(second.slice(0, 12)).toBe(prefix);
        for (const key of [first!, second]) expectOk(await send(LEAF, key, {}));

        const { keys } = await keysOf(agent.id);
        expect(keys).toHaveLength(2);
        const key_id = keys[0]!.id;
        expect(await client.deleteServiceKey({ params: { ...params, key_id } })).toEqual({ deleted: true });
        await expect(client.deleteServiceKey({ params: { ...params, key_id } })).rejects.toMatchObject({
          code: 'NOT_FOUND',
        });
        expectError(await send(LEAF, first!, {}), 401, 'UNAUTHORIZED');
        expectOk(await send(LEAF, second, {}));

        await client.deleteAgent({ params: { id: agent.id }, query: {} });
        expectOk(await send(LEAF, second, {}));
        await client.deleteAgent({ params: { id: again.agent.id }, query: {} });
        expectError(await send(LEAF, second, {}), 401, 'UNAUTHORIZED');
        expect((await client.createAgent({ body })).service_key).toMatch(/^sk_agent_/);
        expectError(await send(LEAF, second, {}), 401, 'UNAUTHORIZED');
      });
    });
  });
}
