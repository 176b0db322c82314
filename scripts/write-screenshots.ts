import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NewRun, RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { TraceEvent } from '#core/runs/trace/trace.ts';
import { Dashboard } from '#local/http/dashboard.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { launchChromium, type Page, signedInPage } from '../dashboard/test/chromium.ts';

/**
 * `npm run screenshots`: regenerates the screenshots of `docs/dashboard.md` from a temporary platform with made-up
 * names.
 */
const FOLDER = join(import.meta.dirname, '../docs/images');
const SIZE = { width: 1280, height: 800 };
const QUALITY = 80;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** IDs of agents by name: each run belongs to an agent. */
const AGENT_IDS = new Map<string, string>();

interface Shot {
  readonly name: string;
  readonly path: string;
  /** Text that is on the page once it is ready. */
  readonly ready: string;
}

async function main(): Promise<void> {
  const target = await startLocalTarget();
  const log = { info: () => {}, error: (text: string) => process.stderr.write(`${text}\n`) };
  await new Dashboard({ log, url: `${target.url}/dashboard` }).prepare();
  const browser = await launchChromium();
  try {
    const shots = shotsOf(await fill(target));
    mkdirSync(FOLDER, { recursive: true });
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await signedInPage(browser, target, { colorScheme, viewport: SIZE, reducedMotion: 'reduce' });
      for (const shot of shots) await take(page, target, shot, colorScheme);
      await page.close();
    }
  } finally {
    await browser.close();
    await target.close();
  }
  process.stdout.write(`${readdirSync(FOLDER).length} pictures are in docs/images.\n`);
}

/** Takes a screenshot of a page, unless the page does not exist yet. */
async function take(page: Page, target: LocalTarget, { name, path, ready }: Shot, theme: string): Promise<void> {
  await page.goto(`${target.url}/dashboard/acme${path}`);
  const content = page.locator('main').getByText(ready, { exact: false }).filter({ visible: true }).first();
  const missing = page.getByRole('heading', { name: 'Page not found' });
  await content.or(missing).first().waitFor();
  if (await missing.isVisible()) return void process.stderr.write(`${path}: there is no such page\n`);
  await page.getByText('Loading').waitFor({ state: 'detached' });
  await page.evaluate('document.fonts.ready');
  for (const chart of await page.getByRole('figure').all()) await chart.locator('svg').first().waitFor();
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  await session.detach();
  const file = `${name}-${theme}.webp`;
  const bytes = Buffer.from(data, 'base64');
  writeFileSync(join(FOLDER, file), bytes);
  process.stdout.write(`${file} ${Math.round(bytes.length / 1000)} KB\n`);
}

const shotsOf = ({ chain, step, schedule }: Awaited<ReturnType<typeof fill>>): readonly Shot[] => [
  { name: 'overview', path: '', ready: 'Acme' },
  { name: 'agents', path: '/agents', ready: 'support-triage' },
  { name: 'playground', path: '/agents/weekly-digest', ready: 'Recent inputs' },
  { name: 'runs', path: '/runs', ready: 'support-triage' },
  { name: 'run', path: `/runs/${chain}?critical=on`, ready: 'tool call look_up_customer' },
  { name: 'step', path: `/runs/${chain}?span=${step}`, ready: 'Result' },
  { name: 'schedules', path: '/schedules', ready: 'weekly-digest' },
  { name: 'schedule', path: `/schedules/${schedule}`, ready: 'weekly-digest' },
  { name: 'tasks', path: '/tasks', ready: 'invoice' },
  { name: 'usage', path: '/usage', ready: 'Show as a table' },
  { name: 'keys', path: '/settings/keys', ready: 'pipeline' },
];

/** Creates a week of a small company's agents. */
async function fill(target: LocalTarget) {
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  const params = { workspace_id };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
  const prompt = (name: string, description: string, text: string) =>
    client.createAgent({
      body: { name, type: 'prompt', description, prompt: text, supported_providers: ['anthropic'] },
    } as never);
  await prompt(
    'support-triage',
    'Sorts what customers write, and answers what it can',
    'Answer {{question}} of {{customer}}.',
  );
  await prompt('crm-lookup', 'Finds a customer and the open orders', 'Find {{customer}}.');
  await prompt('invoice-reader', 'Reads sums and due dates from invoices', 'Read {{invoice}}.');
  await prompt('weekly-digest', 'Tells the team what happened in a week', 'Sum up {{topic}} for {{audience}}.');
  await prompt('lead-enricher', 'Adds what is publicly known to new leads', 'Enrich {{company}}.');
  for (const { name, id } of await client.listAgents({ query: { latest: 'true' } })) AGENT_IDS.set(name, id);
  await client.createApiKey({ body: { name: 'pipeline', scope: 'run' } } as never);
  const schedule = (agent_name: string, cron_expression: string, input_data: object) =>
    client.createSchedule({
      params,
      body: { agent_name, cron_expression, timezone: 'Europe/Berlin', input_data } as never,
    });
  await schedule('lead-enricher', '0 */6 * * *', { company: 'Northwind' });
  await schedule('invoice-reader', '30 7 * * 1-5', { invoice: 'inbox' });
  const digest = await schedule('weekly-digest', '0 9 * * 1-5', { topic: 'support', audience: 'everybody' });
  for (const [title, status, priority] of [
    ['Check the invoice of Contoso: the sum is twice the usual', 'open', 'high'],
    ['Answer the question about refunds by hand', 'in_progress', 'normal'],
    ['Add Fabrikam to the list of resellers', 'done', 'low'],
  ]) {
    await client.createTask({ params, body: { title, status, priority, project: 'support' } } as never);
  }
  await fillWeek(target, workspace_id, digest.schedule.id);
  const { chain, step } = await fillChain(target, workspace_id);
  return { chain, step, schedule: digest.schedule.id };
}

/** Creates runs of seven days during office hours. Every thirteenth fails. */
async function fillWeek(target: LocalTarget, workspaceId: string, digestId: string): Promise<void> {
  const agents = ['support-triage', 'crm-lookup', 'invoice-reader', 'lead-enricher'];
  const monday = startOfWeek();
  for (let index = 0; index < 160; index++) {
    const startedAt = Date.now() - 3 * MINUTE - index * 61 * MINUTE;
    const isBad = index % 13 === 5;
    const tookMs = 900 + ((index * 7919) % 5_200);
    await record(target, workspaceId, {
      ...{
        agentName: agents[index % agents.length]!,
        startedAt,
        tookMs,
        triggerSource: index % 3 === 0 ? 'cli' : 'api',
      },
      result: {
        ...{ inputTokens: 800 + ((index * 131) % 1_900), outputTokens: 90 + ((index * 37) % 400) },
        ...{ costUsd: 0.0031 + (index % 9) * 0.0007, llmProvider: 'anthropic', llmModel: 'claude-sonnet-4-5' },
        ...(isBad && FAILURE),
      },
    });
  }
  for (let day = 0; day < 5; day++) {
    const startedAt = monday + day * DAY + 8 * HOUR;
    if (startedAt > Date.now()) break;
    await record(target, workspaceId, {
      ...{ agentName: 'weekly-digest', startedAt, tookMs: 4_200, triggerSource: 'schedule', scheduleId: digestId },
      ...{ result: day === 2 ? FAILURE : {} },
    });
  }
}

const FAILURE: Partial<RunResult> = {
  status: 'failed',
  errorCode: 'LLM_ERROR',
  errorMessage: 'The provider answered 529: overloaded.',
  stderr: 'retrying in 2 s\nretrying in 4 s\n\u001b[31mno answer after 3 attempts\u001b[0m\n',
};

function startOfWeek(): number {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - ((now.getUTCDay() + 6) % 7));
}

/** Creates a run with two sub-calls for the waterfall, with recorded content. */
async function fillChain(target: LocalTarget, workspaceId: string) {
  const startedAt = Date.now() - 2 * MINUTE;
  const chain = crypto.randomUUID();
  const span = (
    number: number,
    kind: string,
    from: number,
    to: number,
    more: Partial<TraceEvent> = {},
  ): TraceEvent[] => {
    const isBad = more.error_message !== undefined;
    const { payload, model, provider, ...end } = more;
    const about = { span: number, parent: more.parent, ...(payload && { payload }), ...(model && { model, provider }) };
    return [
      ...(/^(llm|tool)_call$/.test(kind)
        ? [{ ...about, at: startedAt + from, event_type: `${kind}_started` as TraceEvent['event_type'] }]
        : []),
      {
        ...{ ...about, ...end, at: startedAt + to, duration_ms: to - from },
        event_type: `${kind}_${isBad ? 'failed' : 'succeeded'}` as TraceEvent['event_type'],
      },
    ];
  };
  const model = { provider: 'anthropic', model: 'claude-sonnet-4-5' };
  const tool = (tool_name: string) => ({ payload: { tool_name } });
  const trace = [
    ...span(1, 'queue', 0, 140),
    ...span(2, 'setup_step', 140, 420, { payload: { name: 'start' } }),
    ...span(3, 'llm_call', 430, 1_650, { ...model, token_input: 1_480, token_output: 96, cost_usd: 0.0059 }),
    ...span(4, 'tool_call', 1_660, 2_940, tool('look_up_customer')),
    ...span(5, 'tool_call', 1_670, 2_200, { ...tool('read_order'), error_message: 'Order 48213 is not in this shop.' }),
    ...span(6, 'llm_call', 2_950, 4_320, { ...model, token_input: 2_210, token_output: 141, cost_usd: 0.0087 }),
    ...span(7, 'tool_call', 4_330, 6_010, tool('read_invoice')),
    ...span(8, 'llm_call', 6_020, 7_480, { ...model, token_input: 3_050, token_output: 233, cost_usd: 0.0126 }),
    ...span(9, 'tool_call', 7_490, 7_760, tool('send_answer')),
  ];
  const said = (text: string) => ({ text, bytes: text.length });
  const called = trace.findIndex(({ span, event_type }) => span === 4 && event_type === 'tool_call_started');
  const contents = {
    [called]: { arguments: said('{"customer":"Contoso","fields":["orders","contract"]}') },
    [called + 1]: { result: said('{"customer":"Contoso","contract":"gold","open_orders":[48210,48212]}') },
  };
  const result = {
    ...{
      inputTokens: 6_740,
      outputTokens: 470,
      costUsd: 0.0272,
      llmProvider: 'anthropic',
      llmModel: 'claude-sonnet-4-5',
    },
    ...{ input: { customer: 'Contoso', question: 'Where is my order 48213?' }, hasContent: true as const, trace },
    output: { answer: 'Order 48213 belongs to another shop; your open orders are 48210 and 48212.' },
  };
  await new RunStore(target.deps, workspaceId).putContent(chain, JSON.stringify(contents));
  const top = { ...{ id: chain, agentName: 'support-triage', startedAt, tookMs: 7_800 }, result };
  await record(target, workspaceId, top);
  for (const [agentName, from, tookMs] of [
    ['crm-lookup', 1_664, 1_180],
    ['invoice-reader', 4_380, 1_580],
  ] as const) {
    const begin = startedAt + from;
    await record(target, workspaceId, {
      ...{ agentName, startedAt: begin, tookMs, triggerSource: 'agent', parentRunId: chain, rootRunId: chain },
      result: {
        costUsd: 0.0041,
        trace: [
          { span: 1, at: begin + 60, event_type: 'llm_call_started', ...model },
          { span: 1, at: begin + tookMs - 40, event_type: 'llm_call_succeeded', duration_ms: tookMs - 100, ...model },
        ],
      },
    });
  }
  const digits = BigInt(`0x${chain.replaceAll('-', '').slice(0, 16)}`);
  return { chain, step: (digits ^ 4n).toString(16).padStart(16, '0') };
}

type Recorded = Partial<NewRun> & {
  readonly agentName: string;
  readonly startedAt: number;
  readonly tookMs: number;
  readonly result: Partial<RunResult>;
};

/** Creates the record of a past run. */
async function record(target: LocalTarget, workspaceId: string, { tookMs, result, ...about }: Recorded): Promise<void> {
  const { deps } = target;
  const now = () => about.startedAt + tookMs;
  const clock = { now, sleep: (ms: number) => deps.clock.sleep(ms) } as typeof deps.clock;
  const store = new RunStore({ ...deps, clock }, workspaceId);
  const run: NewRun = {
    ...{
      id: crypto.randomUUID(),
      agentId: AGENT_IDS.get(about.agentName)!,
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
    },
    ...{ agentVersion: 'v1', engine: 'managed_loop', endpoint: 'run', triggerSource: 'api', input: {} },
    ...{ deadline: about.startedAt + 5 * MINUTE, ...about },
  };
  const { costUsd, llmModel: model } = result;
  await store.start(run);
  await store.finish(run, {
    ...{ status: 'completed', input: {}, output: null, stdout: '', stderr: '', trace: [] },
    ...{ executionMs: tookMs, exitCode: null, errorCode: null, errorMessage: null, creditsCents: 0 },
    ...(model && { costs: [{ provider: 'anthropic' as const, model, costUsd }] }),
    ...result,
  });
}

await main();
