import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { pathParameters, type Route } from '#core/http/route.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { keepInMemory } from '#test/helpers/services.ts';
import { type ApiTools, fetchApiTools } from '../../scripts/fetch-test-tools.ts';
import { makeThing, newTenant, type Tenant } from './things.ts';

/** Tests the OpenAPI document with its consumers: client generators, and a request generator. */
const rows = routes as readonly Route[];
const run = promisify(execFile);

let tools: ApiTools;
let target: LocalTarget;
let home: Tenant;
let folder: string;

beforeAll(async () => {
  tools = fetchApiTools();
  folder = mkdtempSync(join(tmpdir(), 'platform-document-'));
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  keepInMemory(target);
  home = await newTenant(target, 'home', 'mark');
}, 300_000);
afterAll(async () => {
  await target?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the output of a program. On failure, the error includes it. */
const succeed = async (program: string, args: readonly string[]): Promise<string> => {
  const { stdout, stderr } = await run(program, args, { cwd: folder, maxBuffer: 1 << 26 }).catch((error) => {
    throw new Error(`${error.message}\n${error.stdout}`);
  });
  return stdout + stderr;
};

test('a Python client is generated from every operation, and works', { timeout: 120_000 }, async () => {
  const config = join(folder, 'config.json');
  writeFileSync(
    config,
    // It knows bytes under this one name.
    JSON.stringify({
      content_type_overrides: {
        'application/zip': 'application/octet-stream',
        'application/x-ndjson': 'application/octet-stream',
      },
      post_hooks: [],
    }),
  );
  const options = ['--meta', 'none', '--fail-on-warning', '--config', config, '--output-path', join(folder, 'client')];
  await succeed(tools.python, [
    ...['-m', 'openapi_python_client', 'generate', '--url', `${target.url}/openapi.json`],
    ...options,
  ]);
  const program = `
from client import AuthenticatedClient
from client.api.tasks import create_task, list_tasks
from client.models import CreateTaskBody
client = AuthenticatedClient(base_url="${target.url}", token="${home.user.key}", raise_on_unexpected_status=True)
create_task.sync(client=client, body=CreateTaskBody(title="from Python"))
print([task.title for task in list_tasks.sync(client=client).tasks])
`;
  expect(await succeed(tools.python, ['-c', program])).toContain("'from Python'");
});

test('TypeScript types are generated that a strict compiler accepts', { timeout: 120_000 }, async () => {
  const types = join(folder, 'api.ts');
  await succeed(tools.openapiTypescript, [`${target.url}/openapi.json`, '--output', types]);
  const use = join(folder, 'use.ts');
  writeFileSync(
    use,
    `import type { operations } from './api.ts';
     type Task = operations['getTask']['responses'][200]['content']['application/json'];
     export const title = (task: Task): string => task.title;
     // @ts-expect-error: a task has no such member
     export const wrong = (task: Task): string => task.nothing;`,
  );
  const compiler = join(import.meta.dirname, '../../node_modules/.bin/tsc');
  const { status, stdout } = spawnSync(
    process.execPath,
    [compiler, '--noEmit', '--strict', '--allowImportingTsExtensions', '--ignoreConfig', use],
    { encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([0, '']);
});

/** Operations with rules that JSON Schema cannot express, so requests that match the schema may be refused. */
const FURTHER_RULES: Readonly<Record<string, string>> = {
  createOpenAiChatCompletion: 'a body in the form of OpenAI',
  createOpenAiResponse: 'a body in the form of OpenAI',
  createOpenAiConversation: 'a body in the form of OpenAI',
  listDocuments: 'a cursor comes from the page before',
  listMemory: 'a cursor comes from the page before',
  listMemoryTenants: 'a cursor comes from the page before',
  getMemory: 'names of documents: docs/interface/memory.md',
  putMemory: 'names of documents: docs/interface/memory.md',
  deleteMemory: 'names of documents: docs/interface/memory.md',
  listAgents: 'a cursor comes from the page before',
  listApprovals: 'a cursor comes from the page before',
  decideApproval: 'members go with the decision, and the decision with what waits',
  decideByLink: 'a decision that goes with what waits',
  listSessionEvents: 'ids of events that were answered',
  listRunEvents: 'ids of events that were answered',
  listWorkspaceEvents: 'ids of events that were answered within the last hour',
  createApiKey: 'an end that is to come, a workspace of the user',
  previewSchedule: 'names of time zones, cron expressions',
  listUpcoming: 'a window that is not over',
  triggerSchedule: 'a time that there is in the zone of the schedule',
  listRuns: 'a cursor comes from the page before, a window begins before it ends',
  listAuditEntries: 'a cursor comes from the page before, a window begins before it ends',
  openSession: 'an agent that takes sessions',
  sendSessionMessage: 'either an input or a text; the input schema of the agent',
  forkSession: 'as many messages as there are',
  listSessions: 'a cursor comes from the page before',
  listSessionMessages: 'a cursor comes from the page before',
  scoreRun: 'either a value or a label',
  listScores: 'a cursor comes from the page before',
  getScoreSeries: 'a first day before the last, and at most 366 days before it',
  createEval: 'suites: docs/evals.md',
  listEvals: 'a cursor comes from the page before',
  listEvalCases: 'a cursor comes from the page before',
  createTrust: 'an end that is to come, conditions that strangers cannot meet',
  createChatLink: 'budgets in whole cents, agents that chat',
  updateChatLink: 'budgets in whole cents, versions that exist',
  createBulk: 'either ids of runs or a filter, runs that exist',
  replayRun: 'versions of the agent that can run',
  callA2a: 'a call of JSON-RPC',
  sendA2aMessage: 'a message in the form of A2A',
  streamA2aMessage: 'a message in the form of A2A',
  listA2aTasks: 'states of A2A, tokens of pages before',
  getA2aTask: 'the header of the version',
  changeA2aTask: 'a task that has not ended, and what to do with it',
  createA2aPush: 'a task that a message began, an address on the internet',
  listA2aPushes: 'the header of the version',
  getA2aPush: 'the header of the version',
  deleteA2aPush: 'the header of the version',
  getExtendedAgentCard: 'the header of the version',
  runAgUi: 'a message of the user, or answers to what a run asks',
  serveMcp: 'messages of MCP, with headers that repeat them',
  serveAgentMcp: 'messages of MCP, with headers that repeat them',
  callAgent: 'uploads that exist; the input schema of the agent',
  listRunSteps: 'the run of a program that does steps, with its own key',
  putRunStep: 'the run of a program that does steps, with its own key',
  createAgent: 'manifests: docs/manifest.md',
  putGrant: 'hosts and ports: docs/egress.md',
  setTelemetry: 'names and values of headers, addresses on the internet',
  updateAgent: 'manifests: docs/manifest.md',
  forkAgent: 'only public agents can be forked',
  uploadBundle: 'the file is a zip with an entrypoint',
  createWorkspace: 'names from which a slug can be derived',
  putProvider: 'base_url for the name of a provider without a known address',
  updateOrg: 'names of time zones',
  deployService: 'references to agents, names of variables and secrets, numbers of the plan',
  updateService: 'names of variables and secrets, numbers of the plan, addresses for alerts',
  createSchedule: 'names of time zones, cron expressions, references to agents, an end that is to come',
  updateSchedule: 'names of time zones, cron expressions, providers of the agent, an end that is to come',
  inviteMember: 'nobody is invited twice',
  createInvite: 'nobody is invited twice',
  createCheckout: 'one of two members, which both mean the amount',
  addCredits: 'one of two members, which both mean the amount',
  createSession: 'an API key or a code that is good',
  createSignInCode: 'both members or none',
  cliExchange: 'a token that a person agreed to',
  authorizeClient: 'a client with a metadata document',
  getClientToken: 'a code or refresh token that is good',
  revokeClientToken: 'a token',
  answerClientRequest: 'a workspace of the user',
  signIn: 'an API key or a code that is good',
  showCliSignIn: 'a sign-in that waits for an answer',
  answerCliSignIn: 'a sign-in that waits for an answer',
  startOidc: 'an OpenID provider, which this platform does not have',
  finishOidc: 'an OpenID provider, which this platform does not have',
  createConnection: 'public addresses of servers that offer a sign-in, a client beside endpoints',
  getConnection: 'owners that have a connection of the name',
  finishConnection: 'the answer to a sign-in that waits for it',
  deleteConnection: 'owners that have a connection of the name',
  connectionCallback: 'a sign-in that waits for an answer',
  createDestination: 'public addresses, statuses that the events do not exclude',
  updateDestination: 'public addresses, statuses that the events do not exclude',
  createBudget: 'limits that are there and in order, one of each window and scope, addresses for alerts',
  updateBudget: 'limits that are there and in order, addresses for alerts',
  receivePaymentEvent: 'signed by the payment provider',
};

/** Settings of Schemathesis; the resources named in paths exist. */
async function settingsOf(row: Route): Promise<string> {
  const made: Record<string, string> = {};
  for (const name of pathParameters(row.path)) made[name] = await makeThing(name, target, home, row, made);
  // With its organization, it has a slash, which would have to be encoded.
  if (made.model !== undefined) made.model = made.model.slice(made.model.indexOf('/') + 1);
  const given = Object.entries(made).map(([name, value]) => [`path.${name}`, value]);
  // A deadline in the past is answered 504.
  if (['callAgent', 'sendSessionMessage'].includes(row.operationId)) {
    given.push(['header.x-platform-deadline-ms', '4102444800000']);
  }
  return [
    '[[operations]]',
    `include-operation-id = "${row.operationId}"`,
    `parameters = { ${given.map(([name, value]) => `"${name}" = "${value}"`).join(', ')} }`,
    ...(row.operationId in FURTHER_RULES ? ['checks.positive_data_acceptance.enabled = false'] : []),
  ].join('\n');
}

/** An agent whose schemas need all that its document changes in them. */
const AGENT = {
  name: 'described',
  type: 'tool',
  description: 'Adds *numbers*',
  required_secrets: [],
  default_endpoint: 'add-up',
  runtime: { command: 'node main.js' },
  input_schema: {
    $id: 'https://example.org/sum',
    type: 'object',
    properties: {
      items: { type: 'array', items: { $ref: '#/$defs/an item' }, maxItems: 3 },
      note: { $ref: '#/$defs/note' },
    },
    required: ['items'],
    additionalProperties: false,
    $defs: {
      'an item': { type: 'object', properties: { count: { type: 'integer' }, inner: { $ref: '#/$defs/an item' } } },
      note: { type: ['string', 'null'] },
    },
  },
  output_schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
} as const;

test('the document of one agent serves generators of clients', { timeout: 300_000 }, async () => {
  const client = clientOf(target, home.user.key);
  const { name, ...manifest } = AGENT;
  await publishCode(client, name, { 'main.js': `console.log('{"ok":true}')` }, manifest);
  const address = `${target.url}/home/${name}/v1/openapi.json`;
  const answer = await fetch(address, { headers: { authorization: `Bearer ${home.user.key}` } });
  const file = join(folder, 'agent.json');
  writeFileSync(file, await answer.text());
  await succeed(tools.openapiTypescript, [file, '--output', join(folder, 'agent.ts')]);
  const generator = join(folder, 'generator.json');
  writeFileSync(generator, JSON.stringify({ post_hooks: [] }));
  await succeed(tools.python, [
    ...['-m', 'openapi_python_client', 'generate', '--config', generator, '--path', file],
    ...['--meta', 'none', '--fail-on-warning', '--output-path', join(folder, 'agent-client')],
  ]);
});

test('operations with further rules exist', () => {
  expect(rows.map(({ operationId }) => operationId)).toEqual(expect.arrayContaining(Object.keys(FURTHER_RULES)));
});

test('requests that the document allows are served, and answers are as it says', { timeout: 480_000 }, async () => {
  const config = join(folder, 'schemathesis.toml');
  const settings: string[] = [];
  for (const row of rows) settings.push(await settingsOf(row));
  writeFileSync(config, settings.join('\n\n'));
  const output = await succeed(tools.python, [
    ...['-m', 'schemathesis.cli', '--config-file', config, 'run', `${target.url}/openapi.json`],
    ...['-H', `Authorization: Bearer ${home.user.key}`, '-H', `X-Workspace-Id: ${home.user.workspaceId}`],
    // Unknown parameters, repeated ones and unusual e-mail addresses are accepted.
    ...['--exclude-checks', 'negative_data_rejection', '--phases', 'examples,coverage,fuzzing'],
    ...['--max-examples', '5', '--continue-on-failure', '--no-color', '--seed', '1'],
  ]);
  const tested = Number(/Tested: (\d+)/.exec(output)?.[1]);
  expect(tested).toBe(rows.length);
});
