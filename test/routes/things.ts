import { expect, vi } from 'vitest';
import { connectedClientItem } from '#core/accounts/clients/connected-client.ts';
import { keepRequest } from '#core/accounts/clients/requests.ts';
import { OF_WORKSPACE, putConnection } from '#core/accounts/connections/store.ts';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { openNotesOf } from '#core/runs/destinations/notes.ts';
import { clientOf, type LocalTarget, publishCode, request } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { jsonBody } from './rows.ts';

const rows = routes as readonly Route[];

/** A workspace with its owner. Its things show the mark. */
export interface Tenant {
  readonly user: TestUser;
  readonly mark: string;
  readonly runId: string;
}

/** A workspace with a thing of every kind that shows `mark`. */
export async function newTenant(target: LocalTarget, slug: string, mark: string): Promise<Tenant> {
  const user = await target.addUser(slug);
  const client = clientOf(target, user.key);
  const workspace_id = user.workspaceId;
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
  const prompt = { type: 'prompt', description: mark, prompt: mark, supported_providers: ['anthropic'] };
  await client.createAgent({ body: { name: 'secretive', ...prompt } });
  const answer = await request(target, 'POST', `/${slug}/secretive/v1/run`, { key: user.key, json: { mark } });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  const runtime = { command: 'node index.js' };
  await publishCode(client, 'hosted', { 'index.js': '' }, { description: mark, runtime, run_mode: 'always_on' });
  await client.deployService({ params: { workspace_id }, body: { agent: 'hosted', service_name: mark } });
  const address = `https://hooks.example.com/${mark}`;
  const budget = { scope_type: 'workspace', window: 'monthly', soft_limit_usd: 1000, webhook_url: address } as const;
  await client.createBudget({ params: { workspace_id }, body: budget });
  await client.createTask({ body: { title: mark, project: mark, due_date: '2020-01-01' } });
  await client.sendMessage({ body: { title: mark, body: mark, agent_name: mark } });
  await client.putDocument({ params: { namespace: mark, key: mark }, body: { mark } });
  await client.inviteMember({ params: { workspace_id }, body: { email: `${mark}@example.com` } });
  await client.createSchedule({
    params: { workspace_id },
    body: { agent: 'secretive', cron_expression: '0 0 1 1 *', input_data: { mark } },
  });
  await request(target, 'PATCH', '/org', { key: user.key, json: { name: mark } });
  return { user, mark, runId: answer.headers.get('x-run-id')! };
}

type Maker = (target: LocalTarget, tenant: Tenant, row: Route, made: Record<string, string>) => Promise<string>;
/** Parameter -> makes a thing of the tenant, and returns the value that names it. A new one each time, because some rows delete it. */
const MAKERS: Record<string, Maker> = {
  workspace_id: async (_, { user }) => user.workspaceId,
  // The paths of resources.
  first: async (_, { user }, row) => (row.operationId === 'getShortResourceMetadata' ? 'mcp' : user.slug),
  second: async () => 'secretive',
  third: async () => 'mcp',
  request: (target, { mark }) =>
    keepRequest(target.deps, {
      clientId: 'https://client.example/client.json',
      clientName: mark,
      redirectUri: 'https://client.example/callback',
      challenge: 'x'.repeat(43),
      resource: '/mcp',
      scope: 'run',
    }),
  async id(target, { user, mark }, row) {
    // Here `id` is the org.
    if (row.path.startsWith('/agents/{id}/{agent}')) return user.slug;
    if (row.path.startsWith('/connected-clients')) {
      const id = crypto.randomUUID();
      const client = { clientId: 'https://client.example/client.json', clientName: mark, resource: '/mcp' };
      const bound = { userId: user.userId, workspaceId: user.workspaceId, scope: 'run' as const };
      await target.deps.main.put(connectedClientItem(target.deps, { id, ...client, ...bound, refreshHash: 'none' }));
      return id;
    }
    const client = clientOf(target, user.key);
    if (row.path.startsWith('/api-keys')) {
      const { id, key } = await client.createApiKey({ body: { name: mark } });
      apiKeys.set(id, key);
      return id;
    }
    const body = { name: `a-${unique()}`, type: 'prompt', description: mark, prompt: mark };
    return (await client.createAgent({ body })).agent.id;
  },
  async channel(target, { user, mark }, row, { id }) {
    const client = clientOf(target, user.key);
    const { name } = await client.getAgent({ params: { id: id! } });
    const { agent } = await client.createAgent({
      body: { name, type: 'prompt', description: mark, prompt: `${mark} again` },
    });
    const params = { id: id!, channel: 'prod' };
    await client.putChannel({ params, body: { version: agent.version, why: mark } });
    const canary = row.operationId === 'promoteCanary' ? { version: agent.version, percent: 5 } : null;
    await client.putChannel({ params, body: { version: 'v1', canary } });
    return params.channel;
  },
  async key_id(target, { user }, _, { id }) {
    const client = clientOf(target, user.key);
    await client.createServiceKey({ params: { id: id! } });
    return (await client.listServiceKeys({ params: { id: id! } })).keys[0]!.id;
  },
  async user_id(target, { user }) {
    const member = await target.addUser(`member-${unique()}`);
    await target.addMember(member, user.workspaceId);
    return member.userId;
  },
  async invite_id(target, { user }) {
    const params = { workspace_id: user.workspaceId };
    const body = { email: `${unique()}@example.com` };
    return (await clientOf(target, user.key).inviteMember({ params, body })).invite.id;
  },
  async token(target, tenant, row, made) {
    const { user } = tenant;
    const params = { workspace_id: user.workspaceId };
    if (row.path.startsWith('/auth/approvals')) {
      const approval_id = await makeThing('approval_id', target, tenant, row, made);
      const link = await clientOf(target, user.key).createApprovalLink({
        params: { ...params, approval_id },
        body: {},
      });
      return link.url.split('/').at(-1)!;
    }
    const body = { email: `${unique()}@example.com` };
    return (await clientOf(target, user.key).inviteMember({ params, body })).invite.invite_url.split('/').at(-1)!;
  },
  async share(target, { user, runId: run_id }) {
    // One serves all rows: a run has few of them, and none of the rows revokes it.
    const params = { workspace_id: user.workspaceId, run_id };
    const made = sharedUrls.get(run_id) ?? clientOf(target, user.key).createRunShare({ params, body: {} });
    sharedUrls.set(run_id, made);
    return (await made).url.split('/').at(-1)!;
  },
  async score(target, { user, runId: run_id }) {
    const params = { workspace_id: user.workspaceId, run_id };
    // Tests of the row run at the same time, and each deletes its own.
    const name = `s${unique()}`;
    return (await clientOf(target, user.key).scoreRun({ params, body: { name, value: 1 } })).name;
  },
  async chat_link_id(target, { user }) {
    return (await newChatLink(target, user)).id;
  },
  async chat(target, { user }) {
    // One serves all rows: none of them revokes it.
    const made = chatUrls.get(user.userId) ?? newChatLink(target, user);
    chatUrls.set(user.userId, made);
    return (await made).url.split('/').at(-1)!;
  },
  async chat_session(target, _, __, { chat }) {
    // One serves all rows: an address opens few of them.
    const made = chatSessions.get(chat!) ?? clientOf(target, '').openChatSession({ params: { chat: chat! } });
    chatSessions.set(chat!, made);
    return (await made).session_id;
  },
  model: async (_, { user }) => `${user.slug}/secretive`,
  async response_id(target, { user, mark, runId }, row) {
    // Of a run that is long over, where a row only reads.
    if (row.method === 'GET') return `resp_${runId}`;
    const json = { model: `${user.slug}/secretive`, input: mark };
    const answer = await request(target, 'POST', '/openai/v1/responses', { key: user.key, json });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.id;
  },
  async conversation_id(target, { user, mark }) {
    const json = { metadata: { agent: `${user.slug}/secretive`, mark } };
    const answer = await request(target, 'POST', '/openai/v1/conversations', { key: user.key, json });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.id;
  },
  async approval_id(target, { user, mark }) {
    const name = `asks-${unique()}`;
    const turns = [{ toolCalls: [{ name: 'ask_human', input: { question: mark } }] }];
    const prompt = `${mark} [[llm ${JSON.stringify(turns)}]]`;
    const loop = { type: 'agent', description: mark, prompt, required_secrets: [], loop: { tools: ['ask_human'] } };
    await clientOf(target, user.key).createAgent({ body: { name, ...loop } });
    const answer = await request(target, 'POST', `/${user.slug}/${name}/v1/run`, { key: user.key, json: {} });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    const place = { workspaceId: user.workspaceId, runId: answer.body.run_id as string };
    // It is announced in the background.
    await vi.waitFor(async () => expect(await openNotesOf(target.deps, place)).toEqual([]), 20_000);
    return `${place.runId}.1.1`;
  },
  async event(target, { user, mark }) {
    const name = `waits-${unique()}`;
    const [make, wait] = ['event_url', 'wait'].map((tool) => [{ name: tool, input: { event: 'done' } }]);
    const prompt = `${mark} ${name} [[llm ${JSON.stringify([{ toolCalls: make }, { toolCalls: wait }])}]]`;
    const loop = { tools: ['wait', 'event_url'] };
    const manifest = { type: 'agent', description: mark, prompt, required_secrets: [], loop };
    await clientOf(target, user.key).createAgent({ body: { name, ...manifest } });
    const answer = await request(target, 'POST', `/${user.slug}/${name}/v1/run`, { key: user.key, json: {} });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    const { text } = target.llm.requests.findLast((each) => each.text.includes(name))!;
    return /\/webhooks\/events\/([\w-]+)/.exec(text)![1]!;
  },
  async name(target, { user, mark }) {
    const name = `S_${unique().toUpperCase()}`;
    const params = { workspace_id: user.workspaceId };
    await clientOf(target, user.key).putSecret({ params, body: { name, value: mark, description: mark } });
    return name;
  },
  async connection(target, { user, mark }) {
    const name = `c${unique()}`;
    const url = 'https://mcp.example.com/mcp';
    const place = { workspaceId: user.workspaceId, name, owner: OF_WORKSPACE, url, connectedBy: user.userId };
    const grant = { server: 'https://mcp.example.com', metadata: null, client: { client_id: mark }, resource: null };
    await putConnection(target.deps, place, { tokens: { accessToken: mark }, issuer: grant.server, grant });
    return name;
  },
  async trust_id(target, { user, mark }) {
    const params = { workspace_id: user.workspaceId };
    const client = clientOf(target, user.key);
    const body = { repository: 'acme/agents', workflow: mark };
    const { id } = (await client.createTrust({ params, body })).trust;
    return id;
  },
  async provider(target, { user, mark }) {
    const provider = unique();
    const params = { workspace_id: user.workspaceId, provider };
    const base_url = `https://models.example.com/${mark}`;
    await clientOf(target, user.key).putProvider({ params, body: { base_url, api_key: mark } });
    return provider;
  },
  async namespace(target, { user, mark }) {
    const namespace = `n-${unique()}`;
    await clientOf(target, user.key).putDocument({ params: { namespace, key: 'note' }, body: { mark } });
    return namespace;
  },
  async document(target, { user, mark }) {
    const document = `d-${unique()}.md`;
    const params = { workspace_id: user.workspaceId, document };
    await clientOf(target, user.key).putMemory({ params, query: {}, body: { text: mark } });
    return document;
  },
  workspace: async (_, { user }) => user.slug,
  key: async () => 'note',
  async schedule_id(target, { user, mark }) {
    const json = { agent: 'secretive', webhook: true, input_data: { mark } };
    const answer = await request(target, 'POST', `/workspaces/${user.workspaceId}/schedules`, { key: user.key, json });
    const { id, webhook_url } = answer.body.schedule;
    webhookSecrets.set(id, webhook_url.split('/').at(-1));
    return id;
  },
  async service_id(target, { user, mark }) {
    const json = { agent: 'hosted', env: { MARK: mark } };
    const answer = await request(target, 'POST', `/workspaces/${user.workspaceId}/services`, { key: user.key, json });
    return answer.body.service.id;
  },
  async budget_id(target, { user, mark }) {
    const client = clientOf(target, user.key);
    const agent = { name: `a-${unique()}`, type: 'prompt', description: mark, prompt: mark };
    const { id: scope_id } = (await client.createAgent({ body: agent })).agent;
    const params = { workspace_id: user.workspaceId };
    const webhook_url = `https://hooks.example.com/${mark}`;
    const body = { scope_type: 'agent', scope_id, window: 'daily', hard_limit_usd: 5, webhook_url } as const;
    return (await client.createBudget({ params, body })).budget.id;
  },
  destination_id: (target, { user, mark }) =>
    inTurn(async () => {
      const params = { workspace_id: user.workspaceId };
      const client = clientOf(target, user.key);
      const { destinations } = await client.listDestinations({ params });
      // A workspace has at most ten. Tests at the same time use the newest ones.
      for (const { id } of destinations.slice(0, -7)) {
        await client.deleteDestination({ params: { ...params, destination_id: id } }).catch(() => {});
      }
      const body = { url: `https://hooks.example.com/${mark}` };
      return (await client.createDestination({ params, body })).destination.id;
    }),
  async eval_id(target, { user, mark }, _, { id }) {
    const client = clientOf(target, user.key);
    const { eval_id } = await client.createEval({
      params: { id: id! },
      body: { tests: [{ description: mark, vars: {} }] },
    });
    // A workspace has few of them under way.
    await client.abortEval({ params: { id: id!, eval_id } });
    return eval_id;
  },
  async bulk_id(target, { user, mark }) {
    const client = clientOf(target, user.key);
    const params = { workspace_id: user.workspaceId };
    const body = { action: 'cancel', filter: { agent_name: mark } } as const;
    const made = (await client.createBulk({ params, body })) as { readonly id: string };
    // A workspace has few of them under way.
    await client.abortBulk({ params: { ...params, bulk_id: made.id } });
    return made.id;
  },
  secret: async (_, __, ___, { schedule_id }) => webhookSecrets.get(schedule_id!)!,
  async org(target, { user, mark }, { path }, { workspace_id }) {
    if (!path.includes('/grants/')) return user.slug;
    const author = await target.addUser(`author-${unique()}`);
    const body = { name: 'secretive', type: 'prompt', description: 'x', prompt: 'x', is_public: true };
    await clientOf(target, author.key).createAgent({ body });
    const params = { workspace_id: workspace_id!, org: author.slug, agent: 'secretive' };
    const grant = { version: 'all', secrets: [mark.toUpperCase().replaceAll(/\W/g, '_')] };
    await clientOf(target, user.key).putGrant({ params, body: grant });
    return author.slug;
  },
  async session_id(target, { user, mark }, row, { id }) {
    if (row.path.startsWith('/api-keys')) {
      const api_key = apiKeys.get(id!) ?? user.key;
      return (await clientOf(target, user.key).createSession({ body: { api_key } })).session.id;
    }
    if (row.path.startsWith('/workspaces/')) {
      const params = { workspace_id: user.workspaceId };
      const body = { agent: `${user.slug}/secretive`, title: mark };
      return (await clientOf(target, user.key).openSession({ params, body })).id;
    }
    return (await clientOf(target, user.key).createCheckout({ body: { amount_cents: 500 } })).session_id;
  },
  schema: async () => 'agent.json',
  agent: async () => 'secretive',
  version: async () => 'v1',
  endpoint: async () => 'run',
  run_id: async (_, { runId }) => runId,
  a2a_task: async (_, { runId }) => runId,
  a2a_push: async () => 'status',
  prefix: async (_, { runId }) => runId.slice(0, 12),
  trace_id: async (_, { runId }) => runId,
};

/** Maker of every other parameter: the POST row of its collection, which must answer the `id`. */
async function makeByPost(
  name: string,
  target: LocalTarget,
  { user, mark }: Tenant,
  { path }: Route,
  made: Record<string, string>,
): Promise<string> {
  const collection = path.slice(0, path.indexOf(`/{${name}}`));
  const row = rows.find((each) => each.method === 'POST' && each.path === collection);
  if (row === undefined) throw new Error(`{${name}} of ${path} has no maker: add one to MAKERS`);
  const json = jsonBody(row, mark);
  const answer = await request(target, 'POST', fill(collection, made), { key: user.key, json });
  expect(answer.body.id, JSON.stringify(answer.body)).toEqual(expect.any(String));
  return answer.body.id;
}

/** Makes the thing that `{name}` in the row's path stands for, and returns the value that names it. */
export const makeThing = (name: string, ...rest: Parameters<Maker>): Promise<string> =>
  MAKERS[name]?.(...rest) ?? makeByPost(name, ...rest);

/** The address of a row. */
export const fill = (path: string, params: Record<string, string>): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name]!));

let last: Promise<unknown> = Promise.resolve();
/** Runs work after all earlier work has ended. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const result = last.then(work);
  last = result.catch(() => {});
  return result;
}

const webhookSecrets = new Map<string, string>();
async function newChatLink(target: LocalTarget, { key, slug, workspaceId: workspace_id }: TestUser) {
  const body = { agent: `${slug}/secretive`, kind: 'form' } as const;
  return clientOf(target, key).createChatLink({ params: { workspace_id }, body });
}

const chatSessions = new Map<string, Promise<{ readonly session_id: string }>>();
const chatUrls = new Map<string, Promise<{ readonly url: string }>>();
const sharedUrls = new Map<string, Promise<{ readonly url: string }>>();
const apiKeys = new Map<string, string>();
export const unique = (): string => crypto.randomUUID().replaceAll('-', '').slice(0, 12);
