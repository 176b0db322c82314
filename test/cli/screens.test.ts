import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, tempFolder } from './command-line.ts';

/** Output at two terminal widths: real answers with fixed ids, times and costs. */

const COMMANDS = [
  'agents',
  'info greeter',
  'versions greeter',
  'runs',
  'logs greeter',
  'trace asker',
  'dag asker',
  'schedule list',
  'schedule info greeter',
  'secrets list',
  'usage summary',
  'usage agents',
  'usage calls',
  'billing balance',
  'billing checkout CHECKOUT_ID',
  'bulk info BULK_ID',
  'grants list',
  'grants info acme/triage',
  'invite info',
  'operator workspace main',
  'usage metrics --agent-name greeter',
  'doctor',
];

const GREET = `console.error('greeting'); console.log(JSON.stringify({ greeting: 'Grüße, 世界' }));`;
const ASK = `
const { PLATFORM_GATEWAY_URL: url, PLATFORM_SERVICE_KEY: key } = process.env;
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' };
const ask = async () => (await fetch(url + '/main/greeter/v1/run', { method: 'POST', headers, body: '{}' })).json();
ask().then(({ data }) => console.log(JSON.stringify({ asked: data })));
`;

let target: LocalTarget;
let hasSandbox: boolean;
/** Placeholders for ids in commands. */
let ids: Readonly<Record<string, string>>;
let inviteUrl: string;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  hasSandbox = (await target.deps.sandbox.status()).kind !== 'none';
  if (!hasSandbox) return;
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  const params = { workspace_id };
  const runtime = { command: 'node main.js' };
  await publishCode(client, 'greeter', { 'main.js': GREET }, { runtime, description: 'Greets everybody' });
  const dependencies = [{ id: 'main/greeter', version: 'v1' }];
  const manifest = { manifest_version: 1, max_hops: 1, timeout_ms: 20_000, dependencies };
  await publishCode(client, 'asker', { 'main.js': ASK }, { runtime, manifest });
  await client.createSchedule({ params, body: { agent: 'main/greeter', cron_expression: '0 9 * * 1-5' } });
  await client.putSecret({
    params,
    body: { name: 'WEATHER_KEY', value: 'made-up', description: 'Of the weather service' },
  });
  await client.putSecret({ params, body: { name: 'MAIL_PASSWORD', value: 'made-up' } });
  for (const agent of ['asker', 'greeter']) {
    await client.callAgent({ params: { org: 'main', agent, version: 'latest', endpoint: 'run' }, body: {} });
  }
  const stranger = await target.addUser('acme');
  const triage = { is_public: true, runtime, required_secrets: ['WEATHER_KEY'] };
  await publishCode(clientOf(target, stranger.key), 'triage', { 'main.js': GREET }, triage);
  const grant = { version: 'v1', secrets: ['WEATHER_KEY'], scopes: ['tasks' as const, 'messages' as const] };
  await client.putGrant({ params: { ...params, org: 'acme', agent: 'triage' }, body: grant });
  const invited = await client.inviteMember({ params, body: { email: 'grace@example.com', role: 'member' } });
  inviteUrl = invited.invite.invite_url;
  // Nothing is in flight, so nothing is cancelled.
  const [ended] = (await client.listRuns({ params })).runs;
  const bulk = await client.createBulk({ params, body: { action: 'cancel', run_ids: [ended!.id] } });
  const { id: BULK_ID } = bulk as { readonly id: string };
  const isOver = async () => (await client.getBulk({ params: { ...params, bulk_id: BULK_ID } })).status !== 'running';
  await vi.waitUntil(isOver, { timeout: 30_000 });
  const { session_id } = await client.createCheckout({ body: { amount_usd: 10 } });
  ids = { BULK_ID, CHECKOUT_ID: session_id };
});
afterAll(() => target?.close());

/** Sends real requests, and replaces the parts of answers that vary between runs of this test. */
function stable(): typeof fetch {
  const shown = new Map<string, string>();
  const real = new Map<string, string>();
  const idOf = (id: string): string => {
    const number = String(shown.size + 1);
    if (!shown.has(id)) {
      const made = `${number.padStart(8, '0')}-0000-4000-8000-${number.padStart(12, '0')}`;
      shown.set(id, made);
      real.set(made, id);
    }
    return shown.get(id)!;
  };
  const text = (value: string): string =>
    value
      .replaceAll(UUID, idOf)
      .replaceAll(
        /\b\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z)?/g,
        (_, time) => `2026-01-05${time ? 'T09:30:00.000Z' : ''}`,
      )
      .replaceAll(/[0-9a-f]{64}/g, '0123456789abcdef'.repeat(4))
      .replaceAll(/\b(sk_live|req|cs_test)_[\w-]+/g, '$1_made-up');
  const settled = (value: unknown, name = ''): unknown => {
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number') return VARIES.test(name) && value !== 0 ? 125 : value;
    if (Array.isArray(value)) return value.map((each) => settled(each, name));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, settled(member, key)]));
  };
  return async (input, init) => {
    const response = await fetch(
      String(input).replaceAll(UUID, (id) => real.get(id) ?? id),
      init,
    );
    if (!response.headers.get('content-type')?.includes('json')) return response;
    const { status, headers } = response;
    return Response.json(settled(await response.json()), { status, headers: { date: headers.get('date') ?? '' } });
  };
}
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
/** Fields with measured numbers. */
const VARIES = /(_ms|_usd|_seconds|_bytes|_cents|_mb|_at|seconds|size)$/;

describe.each([80, 120])('%i columns', (columns) => {
  test.for(COMMANDS)('%s', async (line, context) => {
    context.skip(!hasSandbox, 'no sandbox on this host');
    const env = {
      PLATFORM_API_URL: target.url,
      PLATFORM_API_KEY: target.key,
      PLATFORM_OPERATOR_KEY: target.operatorKey,
    };
    const argv = line.split(' ').map((word) => ids[word] ?? word);
    const settings = { columns, env, cwd: tempFolder(), fetch: stable(), stdin: inviteUrl };
    const ended = await commandLine(argv, settings);
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    const screen = ended.stdout
      .replaceAll(target.url, 'http://127.0.0.1:4280')
      .replaceAll(process.versions.node, 'NN.N.N')
      .replaceAll(`command line  ${VERSION}`, 'command line  N.N.N')
      .replaceAll(/\d{4}-\d\d-\d\d/g, '2026-01-05');
    expect(`\n${screen}`).toMatchSnapshot();
  });
});
