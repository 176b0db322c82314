import { ApiError } from '#core/api/client.ts';
import { interruptedText } from '#core/base/attempt-text.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { followRun } from '../shared/follow.ts';
import { duration, printable, table, textOf } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

type Client = Awaited<ReturnType<Cli['client']>>;
type TraceEvent = Awaited<ReturnType<Client['listTraceEvents']>>['events'][number];
type Node = Awaited<ReturnType<Client['getRunDag']>>['tree'];

/** A run with its steps and sub-calls. */
interface Traced {
  readonly run_id: string;
  readonly name: string;
  readonly status: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly events: readonly TraceEvent[];
  readonly children: readonly Traced[];
}

const BAR = 24;

const trace: Configure = (command, cli) => {
  command
    .argument('<run>', 'Run ID or prefix, request ID, or agent name (its latest run)')
    .option('-w, --watch', 'Show steps as they complete, until the run ends')
    .option('--content', 'Show prompts, tool arguments and results, if the workspace records them')
    .addHelpText('after', '\nExample:\n  $ platform trace hello')
    .action(async (run, options) => {
      const client = await cli.client();
      const params = await runParams(cli, run);
      if (options.watch) {
        await watch(cli, params);
        // The JSON lines already contain everything.
        if (cli.output.isJson) return;
      }
      const { trace: found } = await client.getRunTrace({ params });
      const { workspace_id } = params;
      const events = await allEvents(client, workspace_id, found.id, options.content);
      const node = await findNode(client, params, found.id);
      const own = { run_id: found.id, name: 'run', status: found.status, from: Date.parse(found.created_at) };
      const children = await Promise.all(
        (node?.children ?? []).map((child) => tracedOf(client, workspace_id, child, options.content)),
      );
      const to = Math.max(
        ...(found.completed_at === undefined ? [] : [Date.parse(found.completed_at)]),
        ...events.map(({ created_at }) => Date.parse(created_at)),
        own.from,
      );
      const whole = { ...own, name: node ? nameOf(node) : own.name, to, events, children };
      cli.output.result({ trace: found, events, sub_calls: children }, () =>
        options.content ? withContent(cli, whole) : waterfall(cli, whole),
      );
    });
};

async function watch(cli: Cli, params: { readonly workspace_id: string; readonly run_id: string }): Promise<void> {
  for await (const event of followRun(cli, params)) {
    const { type, data, created_at } = event;
    if (cli.output.isJson) {
      cli.output.item(event, () => '');
      continue;
    }
    const what = type === 'trace' ? eventText(data) : type === 'sub_call' ? `sub_call ${data.status}` : undefined;
    if (what === undefined) continue;
    const took = typeof data.duration_ms === 'number' ? ` ${duration(data.duration_ms)}` : '';
    cli.output.note(`${cli.output.style('dim', created_at.slice(11, 19))} ${what}${took}`);
  }
}

const eventText = ({ event_type, payload }: Readonly<Record<string, unknown>>): string =>
  event_type === 'interrupted' ? interruptedText(payload as object) : textOf(event_type);

async function allEvents(
  client: Client,
  workspace_id: string,
  trace_id: string,
  content = false,
): Promise<TraceEvent[]> {
  const events: TraceEvent[] = [];
  for (let offset = 0; ; offset = events.length) {
    const page = await client.listTraceEvents({
      params: { workspace_id, trace_id },
      query: { limit: 1000, offset, content: content ? 'true' : 'false' },
    });
    events.push(...page.events);
    if (page.events.length === 0 || events.length >= page.total) return events;
  }
}

/** Returns the node of a run in its call tree; `undefined` if the run has neither a caller nor sub-calls. */
async function findNode(
  client: Client,
  params: { readonly workspace_id: string; readonly run_id: string },
  id: string,
): Promise<Node | undefined> {
  const dag = await client.getRunDag({ params }).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  });
  const find = (node: Node): Node | undefined =>
    node.run_id === id ? node : (node.children as Node[]).map(find).find((found) => found !== undefined);
  return dag && find(dag.tree);
}

async function tracedOf(client: Client, workspace_id: string, node: Node, content?: boolean): Promise<Traced> {
  const from = Date.parse(node.started_at);
  const [events, children] = await Promise.all([
    allEvents(client, workspace_id, node.run_id, content),
    Promise.all((node.children as Node[]).map((child) => tracedOf(client, workspace_id, child, content))),
  ]);
  const { run_id, status } = node;
  return { run_id, name: nameOf(node), status, from, to: from + (node.duration_ms ?? 0), events, children };
}

const nameOf = ({ agent_name, agent_version }: Node): string => `${agent_name}@${agent_version}`;

/** A row of the waterfall. */
interface Row {
  readonly depth: number;
  readonly what: string;
  readonly from: number;
  readonly to: number;
  readonly about: string;
  readonly facts: string;
  readonly cost: string;
  readonly isBad: boolean;
}

/** Returns the rows of a run, its steps and its sub-calls, in the order of their start. */
function rowsOf(run: Traced, depth: number): Row[] {
  const { events } = run;
  const parents = new Map(events.map(({ span_id, parent_span_id }) => [span_id, parent_span_id]));
  const depthOf = (span: string | undefined): number => {
    const parent = span === undefined ? undefined : parents.get(span);
    return parent !== undefined && parents.has(parent) ? 1 + depthOf(parent) : 1;
  };
  const steps = events
    // Sub-calls have rows of their own.
    .filter(({ event_type }) => !/_started$|^sub_call_/.test(event_type))
    .map((event): Row => {
      const to = Date.parse(event.ended_at ?? event.created_at);
      const tokens = event.token_input === undefined ? '' : `${event.token_input} in, ${event.token_output ?? 0} out`;
      return {
        depth: depth + depthOf(event.span_id),
        what: event.event_type.replace(/_(succeeded|failed)$/, ''),
        from: to - (event.duration_ms ?? 0),
        to,
        about: event.model ?? textOf(event.payload.tool_name ?? event.payload.name ?? ''),
        facts: event.error_message ? textOf(event.error_message) : tokens,
        cost: event.cost_usd === undefined ? '' : `$${event.cost_usd.toFixed(6)}`,
        isBad: /failed|error|violation/.test(event.event_type),
      };
    })
    .map((row) => [row]);
  const calls = run.children.map((child) => rowsOf(child, depth + 1));
  const below = [...steps, ...calls].sort(([a], [b]) => a!.from - b!.from || a!.depth - b!.depth);
  const isBad = !['completed', 'running'].includes(run.status);
  const about = depth === 0 ? '' : run.run_id.slice(0, 8);
  const own = { depth, what: run.name, from: run.from, to: run.to, about, facts: run.status, cost: '', isBad };
  return [own, ...below.flat()];
}

/** Returns a line for each time that the run, or a run below it, began again or continued elsewhere. */
const interruptionsOf = (run: Traced): string[] => [
  ...run.events.flatMap(({ event_type, payload, created_at }) =>
    event_type === 'interrupted'
      ? [`${duration(Date.parse(created_at) - run.from)}  ${run.name}: ${interruptedText(payload)}`]
      : [],
  ),
  ...run.children.flatMap(interruptionsOf),
];

function waterfall(cli: Cli, run: Traced): string {
  const rows = rowsOf(run, 0);
  if (rows.length === 1) cli.output.note('The run made no model or tool calls.');
  const whole = Math.max(1, ...rows.map(({ to }) => to - run.from));
  const lines = rows.map((row) => {
    const from = Math.max(0, row.from - run.from);
    const to = Math.max(from, row.to - run.from);
    const first = Math.min(BAR - 1, Math.floor((from / whole) * BAR));
    const length = Math.max(1, Math.round(((to - from) / whole) * BAR));
    const bar = `${' '.repeat(first)}${'█'.repeat(Math.min(length, BAR - first))}`.padEnd(BAR);
    return [
      `${'  '.repeat(row.depth)}${row.what}`,
      cli.output.style(row.isBad ? 'red' : 'cyan', bar),
      `${duration(from)} +${duration(to - from)}`,
      row.about,
      row.facts,
      row.cost,
    ];
  });
  const steps = table(['step', '', 'at', 'about', 'tokens', 'cost'], lines, Math.max(cli.output.width, 100));
  const interruptions = interruptionsOf(run);
  return interruptions.length === 0 ? steps : `${steps}\n\n${interruptions.join('\n')}`;
}

function withContent(cli: Cli, run: Traced): string {
  const texts = said(cli, run);
  if (texts === '') cli.output.note(NOTHING_KEPT);
  return `${waterfall(cli, run)}\n\n${texts}`.trimEnd();
}

/** Returns the recorded content of the steps of a run and its sub-calls, in order. */
function said(cli: Cli, run: Traced): string {
  const blocks = run.events.flatMap(({ event_type, model, payload, content }) => {
    if (content === undefined) return [];
    const about = model ?? textOf(payload.tool_name ?? '');
    const texts = [
      ...(content.messages ?? []).map(({ role, tool_name, text }) => [tool_name ? `${role} ${tool_name}` : role, text]),
      ...(content.arguments ? [['arguments', content.arguments.text]] : []),
      ...(content.result ? [['result', content.result.text]] : []),
    ];
    return texts.map(
      ([what, text]) =>
        `${cli.output.style('dim', `${run.name} ${event_type} ${about}: ${what}`)}\n${printable(text!)}`,
    );
  });
  return [...blocks, ...run.children.map((child) => said(cli, child))].filter((block) => block !== '').join('\n\n');
}

const NOTHING_KEPT =
  'No content is recorded for this run. To record it for future runs: platform workspace update --trace-content all';

export default trace;
