// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the form of manifests.
import { describe, expect, test } from 'vitest';
import { checkManifest } from '#core/agents/validate-references.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { checkDefinition } from './manifest.ts';
import { filledValue, mcpToolName } from './mcp-servers.ts';

const SERVER = { name: 'search', url: 'https://mcp.example.com/mcp', tools: ['search'] };

const agentWith = (...servers: unknown[]): Record<string, unknown> => ({
  name: 'researcher',
  type: 'agent',
  description: 'Researches.',
  prompt: 'You research.',
  required_secrets: ['SEARCH_KEY'],
  optional_secrets: ['ORG'],
  loop: { mcp_servers: servers },
});
const withHeader = (name: string, value: unknown) => agentWith({ ...SERVER, headers: { [name]: value } });

const errorsOf = (body: unknown) => checkDefinition(body).errors.map(({ field, message }) => `${field}: ${message}`);

test('servers get their defaults, and are the same when they are checked again', () => {
  const headers = { Authorization: 'Bearer ${SEARCH_KEY}', 'X-Org': '${ORG}', 'X-Mode': 'fast' };
  const { definition, errors, warnings } = checkDefinition(agentWith({ ...SERVER, headers, tools: ['search', 'a.b'] }));
  expect({ errors, warnings }).toEqual({ errors: [], warnings: [] });
  const mcp_servers = [{ ...SERVER, headers, tools: ['search', 'a.b'], read_only: false, optional: false }];
  expect(definition!.loop).toEqual({ max_turns: 25, mcp_servers });
  expect(checkDefinition(definition)).toMatchObject({
    definition: { loop: { mcp_servers } },
    errors: [],
    warnings: [],
  });
});

test('a command gets its defaults, and all tools of a server may be offered', () => {
  const env = { API_KEY: '${SEARCH_KEY}', MODE: 'fast' };
  const own = { name: 'own', command: 'node', args: ['server.js'], env };
  const { definition, errors, warnings } = checkDefinition({
    ...agentWith(own, { name: 'old', url: SERVER.url, transport: 'sse' }),
    loop: { tools: ['mcp__own__any'], mcp_servers: [own, { name: 'old', url: SERVER.url, transport: 'sse' }] },
  });
  expect({ errors, warnings }).toEqual({ errors: [], warnings: [] });
  const flags = { read_only: false, optional: false };
  expect(definition!.loop!.mcp_servers).toEqual([
    { ...own, ...flags },
    { name: 'old', url: SERVER.url, transport: 'sse', headers: {}, ...flags },
  ]);
  expect(checkDefinition(definition)).toMatchObject({ definition: { loop: definition!.loop }, errors: [] });
});

test('a connection declares its secret, as an optional one for an optional server', () => {
  const { definition, errors } = checkDefinition(
    agentWith(
      { ...SERVER, connection: 'git-hub' },
      { name: 'other', url: SERVER.url, connection: 'other', optional: true },
    ),
  );
  expect(errors).toEqual([]);
  expect(definition).toMatchObject({
    required_secrets: ['SEARCH_KEY', 'PLATFORM_CONNECTION_GIT_HUB'],
    optional_secrets: ['ORG', 'PLATFORM_CONNECTION_OTHER'],
    loop: { mcp_servers: [{ connection: 'git-hub' }, { connection: 'other' }] },
  });
  expect(checkDefinition(definition)).toMatchObject({ definition, errors: [] });
});

test.each<[string, object, string]>([
  ['has another form', { connection: 'Git_Hub' }, 'mcp_servers[0].connection: must be the name of a connection'],
  [
    'is beside a header that it sets',
    { connection: 'a', headers: { authorization: 'Bearer ${SEARCH_KEY}' } },
    'must not have "Authorization" beside "connection"',
  ],
  [
    'is beside a command',
    { url: undefined, command: 'x', connection: 'a' },
    'mcp_servers[0].connection: must not be set beside "command"',
  ],
])('a connection is refused that %s', (_, change, message) => {
  expect(errorsOf(agentWith({ ...SERVER, ...change })).join()).toContain(message);
});

test('a service gets the usual path', () => {
  const { definition, errors } = checkDefinition(agentWith({ name: 'own', service: 'my docs' }));
  expect(errors).toEqual([]);
  const flags = { headers: {}, read_only: false, optional: false };
  expect(definition!.loop!.mcp_servers).toEqual([{ name: 'own', service: 'my docs', path: '/mcp', ...flags }]);
  expect(checkDefinition(definition)).toMatchObject({ definition: { loop: definition!.loop }, errors: [] });
});

test('they may stand beside the loop, and are ignored where there is none', () => {
  const body = { ...agentWith(), loop: {}, mcp_servers: [SERVER] };
  expect(checkDefinition(body).definition!.loop!.mcp_servers).toMatchObject([SERVER]);
  const prompt = { name: 'p-p', type: 'prompt', description: 'P.', prompt: 'P', mcp_servers: [SERVER] };
  expect(checkDefinition(prompt)).toMatchObject({
    errors: [],
    warnings: ['Custom tools, mcp_servers and max_turns are ignored: direct_llm has no loop.'],
  });
});

test('a member that a server does not have is a warning', () => {
  expect(checkDefinition(agentWith({ ...SERVER, readonly: true })).warnings).toEqual([
    'loop.mcp_servers[0].readonly has no effect: loop.mcp_servers[0] has no such member: did you mean "read_only"?',
  ]);
});

describe('refused', () => {
  test.each([
    [
      'no list',
      { ...agentWith(), loop: { mcp_servers: {} } },
      'loop.mcp_servers: must be an array of servers, but is an object',
    ],
    [
      'too many',
      agentWith(...Array.from({ length: 9 }, (_, n) => ({ ...SERVER, name: `s${n}` }))),
      'loop.mcp_servers: must be at most 8',
    ],
    [
      'a name in capitals',
      agentWith({ ...SERVER, name: 'Search' }),
      'loop.mcp_servers[0].name: must be 1-24 lower-case letters',
    ],
    [
      'a name with two hyphens',
      agentWith({ ...SERVER, name: 'a--b' }),
      'loop.mcp_servers[0].name: must be 1-24 lower-case letters',
    ],
    [
      'a name twice',
      agentWith(SERVER, { ...SERVER, tools: ['other'] }),
      'mcp_servers[1].name: is "search" a second time',
    ],
    ['no tools', agentWith({ ...SERVER, tools: [] }), 'loop.mcp_servers[0].tools: must name at least one tool'],
    [
      'no place',
      agentWith({ name: 'search' }),
      'mcp_servers[0]: must have exactly one of "url", "service" and "command", but has none',
    ],
    [
      'two places',
      agentWith({ ...SERVER, command: 'node' }),
      'mcp_servers[0]: must have exactly one of "url", "service" and "command", but has "url" and "command"',
    ],
    [
      'headers of a command',
      agentWith({ name: 'own', command: 'node', headers: {} }),
      'mcp_servers[0].headers: must not be set beside "command": it belongs to "url" or "service"',
    ],
    [
      'arguments of an address',
      agentWith({ ...SERVER, args: ['x'] }),
      'mcp_servers[0].args: must not be set beside "url": it belongs to "command"',
    ],
    [
      'a transport that is none',
      agentWith({ ...SERVER, transport: 'stdio' }),
      'mcp_servers[0].transport: must be one of streamable-http, sse',
    ],
    ...['mcp', '/a b', '/a/../b', '//a#b'].map(
      (path) =>
        [
          `the path ${path}`,
          agentWith({ name: 'own', service: 'docs', path }),
          'mcp_servers[0].path: must be a path that begins with "/"',
        ] as [string, unknown, string],
    ),
    [
      'a path of an address',
      agentWith({ ...SERVER, path: '/mcp' }),
      'mcp_servers[0].path: must not be set beside "url": it belongs to "service"',
    ],
    [
      'a service that has no name',
      agentWith({ name: 'own', service: 'a/b' }),
      'mcp_servers[0].service: must be the name or the id of a service',
    ],
    [
      'a command with a line end',
      agentWith({ name: 'own', command: 'node\nrm' }),
      'mcp_servers[0].command: must be a program',
    ],
    [
      'arguments in one text',
      agentWith({ name: 'own', command: 'node', args: 'server.js' }),
      'mcp_servers[0].args: must be an array of texts',
    ],
    [
      'an argument with NUL',
      agentWith({ name: 'own', command: 'node', args: ['a\0b'] }),
      'mcp_servers[0].args[0]: must be an array of texts without NUL',
    ],
    [
      'a variable of the platform',
      agentWith({ name: 'own', command: 'node', env: { PATH: '/x' } }),
      'mcp_servers[0].env.PATH: must not be set: the platform sets this variable itself',
    ],
    [
      'a variable that is none',
      agentWith({ name: 'own', command: 'node', env: { 'a=b': 'x' } }),
      'mcp_servers[0].env["a=b"]: must have the name of a variable',
    ],
    [
      'a secret in a variable',
      agentWith({ name: 'own', command: 'node', env: { API_KEY: 'letmein' } }),
      'mcp_servers[0].env.API_KEY: must take its value from a secret',
    ],
    [
      'an undeclared secret in a variable',
      agentWith({ name: 'own', command: 'node', env: { API_KEY: '${OTHER}' } }),
      'mcp_servers[0].env.API_KEY: must only use secrets of required_secrets or optional_secrets, but uses "OTHER"',
    ],
    [
      'a key of a provider in a variable',
      {
        ...agentWith({ name: 'own', command: 'node', env: { A: '${OPENAI_API_KEY}' } }),
        optional_secrets: ['OPENAI_API_KEY'],
      },
      'mcp_servers[0].env.A: must not use OPENAI_API_KEY',
    ],
    [
      'a tool with a space',
      agentWith({ ...SERVER, tools: ['a b'] }),
      'loop.mcp_servers[0].tools[0]: must be the name of a tool',
    ],
    [
      'tools of one name',
      agentWith({ ...SERVER, tools: ['a.b', 'a_b'] }),
      'mcp_servers[0].tools[1]: is "a_b", which the model would get as "mcp__search__a_b", the name of another tool',
    ],
    [
      'too many tools',
      agentWith(
        ...['a', 'b', 'c'].map((name) => ({ ...SERVER, name, tools: Array.from({ length: 22 }, (_, n) => `t${n}`) })),
      ),
      'mcp_servers: must have at most 64 tools together, but have 66',
    ],
    [
      'a custom tool of the same name',
      { ...agentWith(SERVER), custom_tools: [{ name: 'mcp__search__search', description: 'S.', command: 'ls' }] },
      'mcp_servers[0].tools[0]: is "search", which the model would get',
    ],
    [
      'an allowed tool that no server has',
      { ...agentWith(), loop: { tools: ['mcp__search__find'], mcp_servers: [SERVER] } },
      'loop.tools[0]: is "mcp__search__find", which is not a tool of mcp_servers',
    ],
    [
      'a header of the connection',
      withHeader('Content-Length', '5'),
      'mcp_servers[0].headers.Content-Length: must not be set',
    ],
    [
      'a header of the protocol',
      withHeader('mcp-session-id', '5'),
      'mcp_servers[0].headers.mcp-session-id: must not be set',
    ],
    [
      'a header that is none',
      withHeader('a b', '5'),
      'mcp_servers[0].headers["a b"]: must have the name of an HTTP header',
    ],
    [
      'a header twice',
      agentWith({ ...SERVER, headers: { 'x-a': '1', 'X-A': '2' } }),
      'mcp_servers[0].headers.X-A: is a duplicate',
    ],
    [
      'a value with a line end',
      withHeader('X-A', 'a\r\nX-B: b'),
      'mcp_servers[0].headers.X-A: must be 1-1,000 characters of ASCII',
    ],
    ['a value that is no text', withHeader('X-A', 5), 'mcp_servers[0].headers.X-A: must be a string'],
    [
      'a secret that is not declared',
      withHeader('X-A', '${OTHER}'),
      'mcp_servers[0].headers.X-A: must only use secrets of required_secrets or optional_secrets, but uses "OTHER"',
    ],
    [
      'a key of a provider',
      { ...withHeader('X-A', '${OPENAI_API_KEY}'), optional_secrets: ['OPENAI_API_KEY'] },
      'mcp_servers[0].headers.X-A: must not use OPENAI_API_KEY: keys of model providers stay with the platform',
    ],
    ['a placeholder without a name', withHeader('X-A', '${}'), 'mcp_servers[0].headers.X-A: must only use secrets'],
    [
      'too many headers',
      agentWith({ ...SERVER, headers: Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`x-${n}`, '1'])) }),
      'mcp_servers[0].headers: must be at most 10',
    ],
  ])('%s', (_, body, message) => {
    expect(errorsOf(body)).toEqual([expect.stringContaining(message)]);
  });

  test.each(['Authorization', 'X-Api-Key', 'Cookie', 'x-auth'])(
    'the value of %s in the manifest, which the error does not repeat',
    (name) => {
      const errors = errorsOf(withHeader(name, 'Bearer letmein'));
      expect(errors).toEqual([expect.stringContaining('must take its value from a secret')]);
      expect(errors[0]).not.toContain('letmein');
    },
  );
});

test.each([
  ['http://mcp.example.com/mcp', {}, 'cannot be used: the address must begin with https://, not http://'],
  ['https://localhost/mcp', {}, 'cannot be used: localhost is not an address of the public internet'],
  ['https://169.254.169.254/mcp', {}, 'cannot be used: 169.254.169.254 is not an address of the public internet'],
  ['https://user:pass@mcp.example.com/', {}, 'cannot be used: the address must not have a user or a password in it'],
  [
    'https://mcp.example.com/mcp',
    { sandboxEgress: 'none' as const },
    'cannot be used: agents have no network access on this platform',
  ],
  [
    'https://mcp.example.com/mcp',
    { sandboxEgress: ['*.example.org'] },
    'cannot be used: agents may not connect to mcp.example.com on this platform',
  ],
  ['https://mcp.example.com/mcp', { sandboxEgress: ['*.example.com'] }, undefined],
  ['http://mcp.intern:8080/mcp', { outboundHosts: ['mcp.intern'] }, undefined],
])('the address %s on a platform with %j', async (url, settings, message) => {
  const deps = memoryDeps(settings);
  const { errors } = await checkManifest(
    deps,
    { id: 'w', slug: 'w', plan: 'team' } as never,
    agentWith({ ...SERVER, url }),
  );
  expect(errors).toEqual(message === undefined ? [] : [{ field: 'mcp_servers[0].url', message }]);
});

test('names of tools fit every provider, and stay different', () => {
  expect(mcpToolName('search', 'find.all')).toBe('mcp__search__find_all');
  const [a, b] = ['a', 'b'].map((end) => mcpToolName('a-server-with-a-long-name', 'x'.repeat(60) + end));
  expect(a).toMatch(/^[\w-]{64}$/);
  expect(a).not.toBe(b);
});

test('a header without its secret is not sent', () => {
  expect(filledValue('Bearer ${A}', { A: ' key\n' })).toBe('Bearer key');
  expect(filledValue('Bearer ${A}', {})).toBeUndefined();
  expect(filledValue('${A}', { A: 'x${B}$&', B: 'no' })).toBe('x${B}$&');
});
