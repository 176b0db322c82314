import { writeFileSync } from 'node:fs';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { expect, onTestFinished, test, vi } from 'vitest';
import { wholeProgram } from '#cli/program.ts';
import { signInAt } from '../helpers/openid-issuer.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startToolIssuer } from '../helpers/tool-issuer.ts';
import { examplesOf, startCommandLine, tempFolder, wordsOf } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/**
 * Runs every example of every help in order. Each must print JSON, one document or one per line: the format without a
 * terminal, and with `--json` on one.
 */

/** Examples with another exit status here, each with its reason. */
const OTHERWISE: { readonly [example: string]: number } = {
  // Nothing waits, and the run does not exist.
  'approve 7f3a9c21': 5,
  'approve 7f3a9c21 --deny --reason "paid already"': 5,
  'approve 7f3a9c21 --answer blue': 5,
  'approve 7f3a9c21 --link --expires 60': 5,
  'replay 5f0c1a2 --from-turn 3 --message "Use the new price list."': 4,
  // The example's profile does not exist.
  'logout --profile staging': 5,
  'switch staging': 5,
  // There is no terminal.
  open: 5,
  'open run 0f8c2d11': 5,
  // stdin holds no key.
  'login --url https://agents.example.com --with-key < key.txt': 5,
  login: 5,
  // The example's archive does not exist.
  'skill install ./skills.zip --name pdf': 5,
  // The run called nothing.
  'dag hello': 4,
  // The platform runs.
  start: 1,
  'upgrade --check': 1,
};

/** Long-running commands with their output after the start. */
const LASTING = [
  ['dev', 'Watching'],
  ['mcp --http', '/mcp'],
] as const;

/** Finds the address that `connect` asks its user to approve at. */
const APPROVAL = /go to\n {2}(http\S+)\n/;

/** Commands whose answer is lines of JSON. */
const IN_LINES = /^(chat|sessions export) /;

/** Returns whether a text is one JSON document, or with `mayBeLines` any number of them, one per line. */
function isJson(text: string, mayBeLines: boolean): boolean {
  const parses = (part: string): boolean => {
    try {
      JSON.parse(part);
      return true;
    } catch {
      return false;
    }
  };
  return parses(text) || (mayBeLines && text.split('\n').filter(Boolean).every(parses));
}

const GREET = 'console.log(JSON.stringify({ greeting: "Hello" }));';
const SERVICE = "require('http').createServer((_, response) => response.end('ok')).listen(process.env.PORT);";

async function startPlatform(): Promise<LocalTarget> {
  const target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  const runtime = { command: 'node main.js' };
  for (let version = 1; version <= 2; version++) await publishCode(client, 'hello', { 'main.js': GREET }, { runtime });
  const offered = { is_public: true, allow_local_download: true };
  await publishCode(client, 'deliveries', { 'main.js': GREET }, { runtime, ...offered });
  await publishCode(client, 'reader', { 'main.js': GREET }, { runtime });
  await publishCode(client, 'bot', { 'main.js': SERVICE }, { runtime, run_mode: 'always_on' });
  await client.createAgent({ body: { name: 'reply-style', type: 'skill', description: 'x', prompt: 'Be brief.' } });
  const { id: workspace_id } = await client.getOrg({});
  await client.createSchedule({
    params: { workspace_id },
    body: { agent: 'main/deliveries', webhook: true, alert_webhook_url: 'https://alerts.example.com/' },
  });
  await client.putDocument({ params: { namespace: 'notes', key: 'today' }, body: { text: 'sun' } });
  await client.putMemory({ params: { workspace_id, document: 'customers/acme.md' }, body: { text: 'Prefers mail.' } });
  await client.putDocument({ params: { namespace: 'drafts', key: 'first' }, body: { text: 'to do' } });
  await target.addMember(await target.addUser('ada'), workspace_id);
  const call = { params: { org: 'main', agent: 'hello', version: 'latest', endpoint: 'run' }, body: {} };
  await client.callAgent(call);
  return target;
}

/** Connects the workspace to `github`, and its owner to `linear`, at a provider of this machine. */
async function connectSome(target: LocalTarget): Promise<void> {
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  const callback = `${target.url}/connections/callback`;
  const { api: url } = await startToolIssuer(callback);
  for (const [name, owner] of [
    ['github', 'workspace'],
    ['linear', 'user'],
  ] as const) {
    const { authorization_url } = await client.createConnection({
      params: { workspace_id },
      body: { name, url, owner },
    });
    const answer = new URL(await signInAt(authorization_url, 'ann')).search.slice(1);
    await client.finishConnection({ params: { workspace_id, connection: name }, body: { answer } });
  }
}

/** Publishes `hello` up to v4, and makes `prod` name v1, with v2 as its canary. */
async function nameVersions(target: LocalTarget): Promise<void> {
  const client = clientOf(target);
  const offered = { runtime: { command: 'node main.js' } };
  const latest = async () => (await client.listAgents({ query: { name: 'hello' } })).length;
  while ((await latest()) < 4) await publishCode(client, 'hello', { 'main.js': GREET }, offered);
  const [{ id } = { id: '' }] = await client.listAgents({ query: { name: 'hello' } });
  const canary = { version: 'v2', percent: 10 };
  await client.putChannel({ params: { id, channel: 'prod' }, body: { version: 'v1', canary } });
}

/** Sends the spans of the workspace to a collector of this machine. */
async function startTelemetry(target: LocalTarget): Promise<void> {
  const collector = await startReceiver();
  onTestFinished(collector.close);
  const { id: workspace_id } = await clientOf(target).getOrg({});
  await clientOf(target).setTelemetry({ params: { workspace_id }, body: { endpoint: collector.url } });
}

test('every command has an example', async () => {
  const missing: string[] = [];
  const walk = (command: CommandUnknownOpts, path: string) => {
    if (command.commands.length === 0 && examplesOf(command).length === 0) missing.push(path);
    for (const each of command.commands) walk(each, `${path} ${each.name()}`);
  };
  walk(await wholeProgram(), 'platform');
  expect(missing.filter((path) => !/ (help|complete|completion)$/.test(path))).toEqual([]);
});

const PLACES = [
  { place: 'without a terminal', flags: [], columns: undefined },
  { place: 'with --json on a terminal', flags: ['--json'], columns: 100 },
];

test.each(PLACES)('every example runs $place', async ({ flags, columns }) => {
  const target = await startPlatform();
  onTestFinished(() => target.close());
  const examples = examplesOf(await wholeProgram());
  const failed: string[] = [];
  const keys = await clientOf(target).createApiKey({ body: { name: 'for the example' } });
  const [hello] = (await clientOf(target).listAgents({})).filter(({ name }) => name === 'hello');
  const params = { id: hello!.id };
  await clientOf(target).createServiceKey({ params });
  const agentKeyId = (await clientOf(target).listServiceKeys({ params })).keys[0]!.id;
  const stranger = await target.addUser('acme');
  const triage = { is_public: true, runtime: { command: 'node main.js' }, required_secrets: ['GITHUB_TOKEN'] };
  await publishCode(clientOf(target, stranger.key), 'triage', { 'main.js': GREET }, triage);
  const offered = { is_public: true, runtime: { command: 'node main.js' } };
  for (let version = 1; version <= 2; version++) {
    await publishCode(clientOf(target, stranger.key), 'hello', { 'main.js': GREET }, offered);
  }
  await nameVersions(target);
  await connectSome(target);
  await startTelemetry(target);
  const { id: workspace_id } = await clientOf(target).getOrg({});
  const [ended] = (await clientOf(target).listRuns({ params: { workspace_id } })).runs;
  const replay = { params: { workspace_id }, body: { action: 'replay' as const, run_ids: [ended!.id] } };
  const bulk = (await clientOf(target).createBulk(replay)) as { readonly id: string };
  const checkout = await clientOf(target).createCheckout({ body: { amount_usd: 10 } });
  const { session } = await clientOf(target).createSession({ body: { api_key: keys.key } });
  const link = await clientOf(target).createRunShare({ params: { workspace_id, run_id: ended!.id }, body: {} });
  const chatLink = await clientOf(target).createChatLink({ params: { workspace_id }, body: { agent: 'main/reader' } });
  const trust = await clientOf(target).createTrust({ params: { workspace_id }, body: { repository: 'acme/agents' } });
  const cwd = tempFolder();
  writeFileSync(`${cwd}/promptfooconfig.yaml`, 'tests: [{ vars: { name: Ada } }]');
  // Examples at a Git host would leave this machine.
  const all = examples.filter((line) => !/my-agent|\.\/hello|completion|github:|https:\/\/(api\.)?github/.test(line));
  const deletes = (line: string) => /^([\w-]+ )?(delete|remove|rm|rm-ns) /.test(line);
  for (const example of [...all.filter((line) => !deletes(line)), ...all.filter(deletes)]) {
    const argv = wordsOf(
      example
        .replace('AGENT_KEY_ID', agentKeyId)
        .replace('KEY_ID', keys.id)
        .replace('SESSION_ID', session.id)
        .replace('BULK_ID', bulk.id)
        .replace('RUN_ID', link.run_id)
        .replace('SHARE_ID', link.id)
        .replace('CHAT_LINK_ID', chatLink.id)
        .replace('TRUST_ID', trust.trust.id)
        .replace('CHECKOUT_ID', checkout.session_id),
    );
    const invited = example.startsWith('invite')
      ? await clientOf(target, stranger.key).inviteMember({
          params: { workspace_id: stranger.workspaceId },
          body: { email: `${crypto.randomUUID()}@example.com`, role: 'member' },
        })
      : undefined;
    const started = startCommandLine([...argv, ...flags], {
      cwd,
      columns,
      configFolder: `${cwd}/config`,
      stdin: invited?.invite.invite_url ?? 'made-up-value',
      env: {
        PLATFORM_API_URL: target.url,
        PLATFORM_API_KEY: target.key,
        PLATFORM_DATA: target.dataFolder,
        PLATFORM_OPERATOR_KEY: target.operatorKey,
        CI: '1',
      },
    });
    const begun = LASTING.find(([command]) => example.startsWith(command))?.[1];
    if (begun !== undefined) {
      await expect.poll(() => started.written.stdout + started.written.stderr, { timeout: 20_000 }).toContain(begun);
      started.interrupt();
    }
    if (example.startsWith('connect ')) {
      await expect.poll(() => started.written.stderr, { timeout: 20_000 }).toMatch(APPROVAL);
      await fetch(await signInAt(APPROVAL.exec(started.written.stderr)![1]!, 'ann'));
    }
    const status = await started.ended;
    const { stdout, stderr } = started.written;
    if (status !== (OTHERWISE[example] ?? 0)) failed.push(`${example}: ${status} ${stderr}`);
    // `mcp` itself communicates with a program.
    if (status === 0 && example !== 'mcp' && !isJson(stdout, begun !== undefined || IN_LINES.test(example)))
      failed.push(`${example}: ${stdout}`);
  }
  expect(failed).toEqual([]);
});
