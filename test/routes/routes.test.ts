import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isMemoryName } from '#core/accounts/documents/memory-names.ts';
import { openApiDocument } from '#core/api/openapi.ts';
import { routes } from '#core/api/routes.ts';
import { isRaw, keyScopeOf, pathParameters, type Route } from '#core/http/route.ts';
import { type Answer, clientOf, type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { goodBody, UNKNOWN_ID, UPSERTS, withQuery } from './rows.ts';

/** Requirements of every row, generated from the route table. `test/e2e` tests the specific behavior of routes. */
const rows = routes as readonly Route[];
const keyRows = rows.filter((row) => row.auth === 'key');
const instanceRows = rows.filter((row) => row.auth === 'instance');
const operatorRows = rows.filter((row) => row.auth === 'operator');
/** A key is optional, but is checked if present. */
const optionalRows = rows.filter((row) => row.auth === 'optional');
const publicRows = rows.filter((row) => row.auth === 'public');
const jsonRows = rows.filter((row) => row.request?.body !== undefined && !isRaw(row.request.body));
const label = (row: Route): string => `${row.method} ${row.path}`;
const named = (list: readonly Route[]) => list.map((row) => [label(row), row] as const);

/** Words that occur only in the victim's data. */
const MARK = 'zebra-crossing';

let target: LocalTarget;
let victim: TestUser;
let stranger: TestUser;
let member: TestUser;
let agentId: string;
let scheduleId: string;

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  [victim, stranger, member] = await Promise.all([
    target.addUser('victim'),
    target.addUser('stranger'),
    target.addUser('member'),
  ]);
  await target.addMember(member, victim.workspaceId);
  const client = clientOf(target, victim.key);
  const body = { name: 'secretive', type: 'prompt', description: MARK, prompt: MARK };
  agentId = (await client.createAgent({ body })).agent.id;
  await client.putSecret({
    params: { workspace_id: victim.workspaceId },
    body: { name: 'ZEBRA', value: MARK, description: MARK },
  });
  const { schedule } = await client.createSchedule({
    params: { workspace_id: victim.workspaceId },
    body: { agent: 'secretive', webhook: true, input_data: { mark: MARK } },
  });
  scheduleId = schedule.id;
  await client.putDocument({ params: { namespace: 'notes', key: 'note' }, body: { MARK } });
});
afterAll(() => target?.close());

/** Parameters of the victim's resources. */
const victimParams = (row: Route): Record<string, string> => ({
  workspace_id: victim.workspaceId,
  id: row.path.startsWith('/api-keys') ? victim.keyId : agentId,
  schedule_id: scheduleId,
  name: 'ZEBRA',
  org: 'victim',
  agent: 'secretive',
  version: 'v1',
  endpoint: 'run',
  namespace: 'notes',
  key: 'note',
});
/** Parameters of nonexistent resources in the caller's own workspace. */
const unknownParams = (user: TestUser): Record<string, string> => ({
  workspace_id: user.workspaceId,
  id: UNKNOWN_ID,
  schedule_id: UNKNOWN_ID,
  name: 'NOT_THERE',
  org: 'nobody',
  agent: 'nothing',
  version: 'v1',
  endpoint: 'run',
  namespace: 'nothing',
  key: 'nothing',
});
const pathOf = (row: Route, params: Record<string, string>): string =>
  row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? UNKNOWN_ID));

const send = (row: Route, params: Record<string, string>, options: Parameters<typeof request>[3] = {}) =>
  request(target, row.method, withQuery(row, pathOf(row, params)), { ...goodBody(row), ...options });

const document = openApiDocument() as {
  paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
  components: { schemas: { Error: object; OpenAiError: object; A2aError: object } };
};
const ajv = ajvFormats.default(new Ajv2020({ strict: false }));
const isErrorBody = ajv.compile(document.components.schemas.Error);
const isOpenAiErrorBody = ajv.compile(document.components.schemas.OpenAiError);
/** Rows of OpenAI's wire, whose errors have its form. */
const isOpenAi = ({ path }: Route): boolean => path.startsWith('/openai/');
const isA2aErrorBody = ajv.compile(document.components.schemas.A2aError);
/** Rows of A2A, whose errors have its form. */
const isA2a = ({ path }: Route): boolean => path.startsWith('/a2a/');
/** Rows of MCP, which answer in its form to what its protocol refuses. */
const isMcp = ({ path }: Route): boolean => path.endsWith('/mcp');
/** Rows for clients that sign in: what is wrong with a request is said in OAuth's form. */
const isOAuth = ({ path }: Route): boolean => ['/oauth/token', '/oauth/revoke'].includes(path);

/** Checks every answer: its status is documented for the row, errors use the envelope, and none is a server error. */
function expectSound(row: Route, answer: Answer): void {
  const { responses } = document.paths[row.path]![row.method.toLowerCase()]!;
  expect(Object.keys(responses), JSON.stringify(answer.body)).toContain(String(answer.status));
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500);
  expect(answer.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/);
  for (const name of ['limit', 'remaining', 'reset']) {
    expect(answer.headers.get(`x-ratelimit-${name}`), name).toMatch(/^\d+$/);
  }
  if (answer.status < 400) return;
  if (isA2a(row)) {
    expect(isA2aErrorBody(answer.body), JSON.stringify(isA2aErrorBody.errors)).toBe(true);
    expect(answer.headers.get('content-type')).toBe('application/json');
    return;
  }
  if (isOpenAi(row)) {
    expect(isOpenAiErrorBody(answer.body), JSON.stringify(isOpenAiErrorBody.errors)).toBe(true);
    expect(answer.headers.get('content-type')).toBe('application/json');
    return;
  }
  if (isMcp(row) && answer.body.jsonrpc === '2.0') {
    expect(answer.body.error).toMatchObject({ code: expect.any(Number), message: expect.any(String) });
    return;
  }
  if (isOAuth(row) && answer.status === 400) {
    expect(answer.body).toEqual({ error: expect.stringMatching(/^[a-z_]+$/), error_description: expect.any(String) });
    return;
  }
  expect(isErrorBody(answer.body), JSON.stringify(isErrorBody.errors)).toBe(true);
  expect(answer.body.metadata.request_id).toBe(answer.headers.get('x-request-id'));
  expect(answer.headers.get('content-type')).toBe('application/json');
}
/** Rows that accept no user's key. */
const hasOwnKey = ({ auth }: Route): boolean => auth === 'instance' || auth === 'operator';
/** Statuses that reveal nothing to a stranger. */
const refusals = (row: Route): number[] => (hasOwnKey(row) ? [401] : [403, 404]);
function expectRefusal(row: Route, answer: Answer, status: number, code: string): void {
  if (isOpenAi(row)) expect(answer.headers.get('x-should-retry')).toBe('false');
  else if (isA2a(row))
    expect(answer.body).toMatchObject({ error: { details: [{ reason: code, metadata: { is_retryable: 'false' } }] } });
  else expect(answer.body).toMatchObject({ error: { code, is_retryable: false } });
  expect(answer.status).toBe(status);
  expectSound(row, answer);
}

test('every route for agents asks foreign ones for a grant, or opens nothing of the workspace to them', () => {
  const open = rows.filter(({ agents, scope }) => agents && scope === undefined);
  // Calls and their uploads, documents, of which `documents-of.ts` gives foreign agents their own, and the runs that a
  // run started itself.
  expect(new Set(open.map(({ fn }) => fn))).toEqual(new Set(['calls', 'events', 'runs', 'storage', 'uploads']));
  const ofRuns = open.filter(({ fn }) => fn === 'events' || fn === 'runs').map(({ operationId }) => operationId);
  expect(ofRuns.sort()).toEqual(['getRun', 'listRunEvents']);
});

test('what a key with the scope "publish" may use', () => {
  const open = rows.filter(({ forPublishing }) => forPublishing).map(({ operationId }) => operationId);
  expect(open).toEqual([
    'listAgents',
    'createAgent',
    'previewAgent',
    'validateAgent',
    'getAgent',
    'uploadBundle',
    'getAgentTree',
    'createUpload',
  ]);
  const needing = rows.filter((row) => row.auth === 'key' && keyScopeOf(row) === 'publish');
  expect(needing.map(({ operationId }) => operationId)).toEqual(['createAgent', 'uploadBundle']);
});

test('what a key with the scope "read" or "run" may send, beside GET', () => {
  const sending = (scope: string) =>
    rows
      .filter((row) => row.auth === 'key' && row.method !== 'GET' && keyScopeOf(row) === scope)
      .map(({ operationId }) => operationId);
  // Sessions and links have the limits of the key that makes them.
  expect(sending('read')).toEqual([
    'deleteSession',
    'createSignInCode',
    'cliLogout',
    'validateAgent',
    'previewSchedule',
  ]);
  expect(sending('run').filter((name) => !rows.find((row) => row.operationId === name)!.agents)).toEqual([
    'markMessagesSeen',
    'cancelRun',
    'requestRunCancel',
    'openSession',
    'updateSession',
    'deleteAgentSession',
    'interruptSession',
    'forkSession',
    'sendSessionMessage',
    'scoreRun',
    'deleteRunScore',
    'createEval',
    'abortEval',
    'createBulk',
    'abortBulk',
    'triggerSchedule',
    'createOpenAiChatCompletion',
    'createOpenAiResponse',
    'cancelOpenAiResponse',
    'deleteOpenAiResponse',
    'createOpenAiConversation',
    'deleteOpenAiConversation',
    'runAgUi',
    'callA2a',
    'sendA2aMessage',
    'streamA2aMessage',
    'changeA2aTask',
    'createA2aPush',
    'deleteA2aPush',
    'serveMcp',
    'serveAgentMcp',
    'replayRun',
  ]);
});

describe.concurrent('without a valid key', () => {
  test.for(named([...keyRows, ...instanceRows, ...operatorRows, ...optionalRows]))('%s is refused', async ([, row]) => {
    const { key } = await clientOf(target, victim.key).createApiKey({ body: { name: label(row).slice(0, 100) } });
    const [{ id } = { id: '' }] = (await clientOf(target, key).listApiKeys({})).filter(
      ({ prefix }) => prefix === key.slice(0, 12),
    );
    await clientOf(target, victim.key).deleteApiKey({ params: { id } });
    const typo = victim.key.slice(0, -1) + (victim.key.endsWith('A') ? 'B' : 'A');
    for (const authorization of [
      ...(row.auth === 'optional' ? [] : [undefined]),
      'Bearer',
      'Bearer x',
      `Basic ${victim.key}`,
      `Bearer ${typo}`,
      `Bearer ${key}`,
    ]) {
      const answer = await send(row, victimParams(row), {
        headers: authorization === undefined ? {} : { authorization },
      });
      expectRefusal(row, answer, 401, 'UNAUTHORIZED');
    }
  });

  test.for(named(optionalRows))('%s answers', async ([, row]) => {
    const answer = await send(row, unknownParams(stranger));
    expectSound(row, answer);
    expect(answer.status).toBe(404);
  });

  test.for(named(publicRows))('%s answers, and ignores a wrong key', async ([, row]) => {
    const plain = await send(row, unknownParams(stranger));
    expectSound(row, plain);
    expect(plain.status).not.toBe(401);
    const answer = await send(row, unknownParams(stranger), {
      key: 'sk_live_wrong',
      headers: { 'x-workspace-id': 'x' },
    });
    expect(answer.status).toBe(plain.status);
  });
});

describe.concurrent('with the wrong role', () => {
  test.for(named(keyRows.filter((row) => row.role === 'owner')))('%s is refused to a member', async ([, row]) => {
    const headers = { 'x-workspace-id': victim.workspaceId };
    const answer = await send(row, victimParams(row), { key: member.key, headers });
    expectRefusal(row, answer, 403, 'FORBIDDEN');
    expect(answer.body.error.message).toContain('Only an owner');
  });
});

describe.concurrent("another workspace's things", () => {
  test.for(named(rows.filter((row) => pathParameters(row.path).length > 0)))(
    '%s shows nothing of them',
    async ([, row]) => {
      const answer = await send(row, victimParams(row), row.auth === 'key' ? { key: stranger.key } : {});
      expectSound(row, answer);
      // His own documents of that name.
      expect(row.fn === 'storage' ? [200, 403, 404] : refusals(row)).toContain(answer.status);
      expect(JSON.stringify({ ...answer.body, namespace: undefined, key: undefined })).not.toMatch(
        new RegExp(`${MARK}|sk_live`),
      );
    },
  );

  test.for(named(keyRows))('%s does not act in a workspace that the caller is no member of', async ([, row]) => {
    const headers = { 'x-workspace-id': victim.workspaceId };
    const answer = await send(row, victimParams(row), { key: stranger.key, headers });
    expectRefusal(row, answer, 403, 'FORBIDDEN');
    expect(JSON.stringify(answer.body)).not.toContain(MARK);
  });
});

describe.concurrent('what does not exist', () => {
  const leadingNowhere = rows.filter((row) => pathParameters(row.path).some((name) => name !== 'workspace_id'));
  const notFound = leadingNowhere.filter((row) => !UPSERTS.includes(row.operationId) && !hasOwnKey(row));
  test.for(named(notFound))('%s is not found', async ([, row]) => {
    const options = row.auth === 'key' ? { key: stranger.key } : {};
    expectRefusal(row, await send(row, unknownParams(stranger), options), 404, 'NOT_FOUND');
  });

  const odd = [
    '%00',
    '%2e%2e%2f',
    '%F0%9F%98%80',
    '%E0%A4%A',
    "'%22%3B--",
    '__proto__',
    'x'.repeat(256),
    'ü'.repeat(100),
    '%20',
    '-',
  ];
  test.for(named(leadingNowhere))('%s bears odd names', async ([, row]) => {
    for (const name of [...odd, 'x'.repeat(2000)]) {
      const path = row.path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) =>
        parameter === 'workspace_id' ? stranger.workspaceId : name,
      );
      const answer = await request(target, row.method, path, { ...goodBody(row), key: stranger.key });
      // So long a path is that of no row.
      if (name.length < 2000) expectSound(row, answer);
      const statuses = row.request?.params ? [400, 404] : [404, ...(hasOwnKey(row) ? [401] : [])];
      // Some of these are names of documents, which one row writes, and the others find.
      if (row.path.endsWith('/memory/{document}') && isMemoryName(name)) statuses.push(200);
      expect(statuses).toContain(answer.status);
    }
  });
});

describe.concurrent('wrong bodies', () => {
  const deep = (open: string, close: string) => open.repeat(10_000) + close.repeat(10_000);
  const bodies: [string, string, string | undefined][] = [
    ['not JSON', '{"a":', 'application/json'],
    ['no UTF-8 text', '\ud800', 'text/plain'],
    ['empty', '', 'application/json'],
    ['null', 'null', 'application/json'],
    ['an array', '[1]', 'application/json'],
    ['a string', '"x"', 'application/json'],
    ['of the wrong type', '{}', 'text/xml'],
    ['nested arrays', deep('[', ']'), 'application/json'],
    ['nested objects', `{"name":${deep('{"a":', '')}1${'}'.repeat(10_000)}}`, 'application/json'],
    ['polluting', '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}', 'application/json'],
    [
      'with strange members',
      '{"name":{"name":[]},"value":{},"type":[],"description":7,"new_name":{}}',
      'application/json',
    ],
    ['long names', `{"${'x'.repeat(100_000)}":1}`, 'application/json'],
    ['huge', `{"name":"${'x'.repeat(3_000_000)}"}`, 'application/json'],
  ];
  const typed = (type: string | undefined): Record<string, string> => (type ? { 'content-type': type } : {});
  /** Their bodies may be empty or have any members. */
  const lenient = [
    'validateAgent',
    'updateAgent',
    'forkAgent',
    'updateOrg',
    'updateSchedule',
    'triggerSchedule',
    'createSignInCode',
    'cliInit',
  ];

  test.for(named(jsonRows))('%s refuses them', async ([, row]) => {
    for (const [kind, body, type] of bodies) {
      const options = { key: victim.key, body, json: undefined, headers: typed(type) };
      const answer = await send(row, victimParams(row), options);
      expectSound(row, answer);
      if (answer.status < 400) expect([kind, lenient]).toEqual([kind, expect.arrayContaining([row.operationId])]);
    }
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test.for(named(rows.filter((row) => row.request?.body !== undefined && isRaw(row.request.body))))(
    '%s, which reads its body itself, refuses them',
    async ([, row]) => {
      for (const [, body, type] of [
        ...bodies,
        [
          'cut off',
          '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc',
          'multipart/form-data; boundary=x',
        ] as const,
      ]) {
        const options = { key: victim.key, body, json: undefined, headers: typed(type) };
        const answer = await send(row, victimParams(row), options);
        expectSound(row, answer);
        // The prompt that is called takes any object, and so do documents.
        if (row.operationId === 'callA2a' && answer.status === 200) expect(answer.body).toHaveProperty('error');
        else if (!['callAgent', 'putDocument', 'patchDocument'].includes(row.operationId))
          expect(answer.status).toBeGreaterThanOrEqual(400);
      }
    },
  );

  test.for(named(rows.filter((row) => row.request?.query !== undefined)))('%s bears a wrong query', async ([, row]) => {
    for (const query of [
      '?limit=x&mode=y&sort=z&verbose=maybe&offset=-1',
      '?limit=1e9',
      '?name=',
      `?name=${'x'.repeat(5000)}`,
      '?before=yesterday',
      '?__proto__=1',
      '?%FF=%FF',
      `?search=${'x'.repeat(3000)}`,
    ]) {
      const path = pathOf(row, unknownParams(stranger)) + query;
      expectSound(row, await request(target, row.method, path, { ...goodBody(row), key: stranger.key }));
    }
  });
});

describe.concurrent('other methods', () => {
  const paths = [...new Set(rows.map((row) => row.path))];
  test.for(paths)('%s knows its own', async (path) => {
    const own = rows.filter((row) => row.path === path).map((row) => row.method as string);
    const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => unknownParams(stranger)[name] ?? UNKNOWN_ID);
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD']) {
      if (own.includes(method) || (method === 'HEAD' && own.includes('GET'))) continue;
      const answer = await request(target, method, address, { key: stranger.key });
      // `/agents/preview` is an `/agents/{id}`, too.
      if (answer.status !== 405) {
        const fixed = address.replace(/[^/]+$/, '{id}');
        expect([
          answer.status,
          rows.some((row) => row.path === fixed && row.method === (method === 'HEAD' ? 'GET' : method)),
        ]).toEqual([404, true]);
        continue;
      }
      const allowed = answer.headers.get('allow')!.split(', ');
      expect(allowed).toEqual(expect.arrayContaining(own));
      expect(allowed).not.toContain(method);
      if (method === 'HEAD') continue;
      const { code, details } = answer.body.error;
      expect(path.startsWith('/a2a/') ? details[0].reason : code.toUpperCase()).toBe('METHOD_NOT_ALLOWED');
    }
  });

  test.for(named(rows.filter((row) => row.method === 'GET')))('HEAD of %s is a GET without a body', async ([, row]) => {
    const options = row.auth === 'key' ? { key: stranger.key } : {};
    const path = withQuery(row, pathOf(row, unknownParams(stranger)));
    const [got, head] = await Promise.all(['GET', 'HEAD'].map((method) => request(target, method, path, options)));
    expect(head!.status).toBe(got!.status);
    expect(head!.body).toBe('');
  });

  test.for([
    '/',
    '/nothing',
    '/agents/',
    '/api-keys/x/y',
    '/workspaces/x/secrets/y/z',
    '/favicon.ico',
    '//',
    '/acme/echo/v1/run/x',
  ])('%s is nowhere', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await request(target, method, path, { key: stranger.key });
      expect(answer.status).toBe(404);
      expect(answer.body).toMatchObject({
        error: { code: 'NOT_FOUND', message: expect.stringContaining('openapi.json') },
      });
    }
  });
});

test('nothing of all that went wrong on our side, and the victim has what he had', async () => {
  const client = clientOf(target, victim.key);
  expect((await client.listAgents({})).filter(({ name }) => name === 'secretive')).toMatchObject([
    { id: agentId, prompt: MARK },
  ]);
  const { secrets } = await client.listSecrets({ params: { workspace_id: victim.workspaceId } });
  expect(secrets.map(({ name }) => name)).toContain('ZEBRA');
});
