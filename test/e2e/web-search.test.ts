import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, request, startLocalTarget } from '#test/helpers/platform.ts';
import { SEARCH_KEY, startScriptedSearch } from '#test/helpers/scripted-search.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from './expect.ts';

/** Searches of loops, from the secret of a workspace to the cost of the run. */
const search = await startScriptedSearch();
const target = await startLocalTarget(search.settings);
let user: TestUser;
let author: TestUser;

beforeAll(async () => {
  [user, author] = await Promise.all([target.addUser('seeker'), target.addUser('seek-author')]);
  await secret('ANTHROPIC_API_KEY', 'sk-ant-search-0123456789');
  await secret('TAVILY_API_KEY', SEARCH_KEY);
});
afterAll(async () => {
  await target.close();
  await search.close();
});

const secret = (name: string, value: string) =>
  clientOf(target, user.key).putSecret({ params: { workspace_id: user.workspaceId }, body: { name, value } });

async function publish(name: string, turns: readonly object[], by = user, more: object = {}) {
  const prompt = `${name} [[llm ${JSON.stringify(turns)}]]`;
  const loop = { tools: ['web_search'], max_turns: 50, ...more };
  const json = { name, type: 'agent', description: name, prompt, required_secrets: [], is_public: true, loop };
  expectOk(await request(target, 'POST', '/agents', { key: by.key, json }), 201);
}
const run = (agent: string) => request(target, 'POST', `/${agent}/v1/run`, { key: user.key, json: {} });
const searching = (query: string) => ({ name: 'web_search', input: { query } });

test('searches are answered, and cost what the provider takes', async () => {
  const usage = { input: 1000, output: 1000 };
  const turns = [
    { toolCalls: [searching('one'), searching('two')], usage },
    { echo: true, usage },
  ];
  await publish('finder', turns);
  const answer = await run('seeker/finder');
  expect(expectOk(answer).data.result).toContain('1. one <strong>1</strong>');
  expect(search.searches.map(({ query, provider, key }) => [query, provider, key])).toEqual([
    ['one', 'tavily', SEARCH_KEY],
    ['two', 'tavily', SEARCH_KEY],
  ]);
  await publish('thinker', [
    { toolCalls: [{ name: 'nothing', input: {} }], usage },
    { echo: true, usage },
  ]);
  const other = await run('seeker/thinker');
  const costOf = async (run_id: string) => {
    const params = { workspace_id: user.workspaceId, run_id };
    return (await clientOf(target, user.key).getRun({ params })).cost_usd!;
  };
  const [ofSearches, withoutSearches] = await Promise.all(
    [answer, other].map(({ headers }) => costOf(headers.get('x-run-id')!)),
  );
  expect(ofSearches! - withoutSearches!).toBeCloseTo(2 * 0.008, 6);
});

test('the key is not shown, and not in the sandbox', async () => {
  const trace = JSON.stringify(target.llm.requests.map(({ body }) => body));
  expect(trace).not.toContain(SEARCH_KEY);
});

test('a run may search fifty times', async () => {
  const eight = (i: number) => ({ toolCalls: Array.from({ length: 8 }, (_, j) => searching(`q ${i} ${j}`)) });
  await publish('greedy', [...Array.from({ length: 7 }, (_, i) => eight(i)), { echo: true }]);
  const before = search.searches.length;
  expect(expectOk(await run('seeker/greedy')).data.result).toContain(
    'A run may call web_search 50 times, and has done so.',
  );
  expect(search.searches.length - before).toBe(50);
});

test('an agent of another workspace needs a grant of the key', async () => {
  await publish('stranger', [{ toolCalls: [searching('x')] }, { echo: true }], author);
  const error = expectError(await run('seek-author/stranger'), 400, 'MISSING_SECRETS');
  expect(error.hint).toContain('An owner of the workspace can grant it: PUT /workspaces/');
  const params = { workspace_id: user.workspaceId, org: 'seek-author', agent: 'stranger' };
  await clientOf(target, user.key).putGrant({ params, body: { version: 'all', secrets: ['TAVILY_API_KEY'] } });
  expect(expectOk(await run('seek-author/stranger')).data.result).toContain('1. x ');
});
