import type { Cli, Configure } from '../cli.ts';
import { duration, table, textOf } from '../output.ts';
import { runParams } from '../run-params.ts';

type Client = Awaited<ReturnType<Cli['client']>>;
type TraceEvent = Awaited<ReturnType<Client['listTraceEvents']>>['events'][number];

const BAR = 24;

const trace: Configure = (command, cli) => {
  command
    .argument('<run>', 'id of a run, its first digits, a request id, or an agent: its newest run')
    .addHelpText('after', '\nExample:\n  $ platform trace hello')
    .action(async (run: string) => {
      const client = await cli.client();
      const params = await runParams(cli, run);
      const { trace: found } = await client.getRunTrace({ params });
      const events = await allEvents(client, params.workspace_id, found.id);
      cli.output.result({ trace: found, events }, () => waterfall(cli, found.created_at, events));
    });
};

async function allEvents(client: Client, workspace_id: string, trace_id: string): Promise<TraceEvent[]> {
  const events: TraceEvent[] = [];
  for (let offset = 0; ; offset = events.length) {
    const page = await client.listTraceEvents({ params: { workspace_id, trace_id }, query: { limit: 1000, offset } });
    events.push(...page.events);
    if (page.events.length === 0 || events.length >= page.total) return events;
  }
}

/** A line for each step that took time, with a bar from its beginning to its end. */
function waterfall(cli: Cli, startedAt: string, events: readonly TraceEvent[]): string {
  const begin = Date.parse(startedAt);
  const steps = events
    .filter(({ event_type }) => !event_type.endsWith('_started'))
    .map((event) => {
      const end = Date.parse(event.created_at) - begin;
      return { event, from: Math.max(0, end - (event.duration_ms ?? 0)), to: Math.max(0, end) };
    });
  if (steps.length === 0) {
    cli.output.note('The run asked no model and used no tool.');
    return '';
  }
  const whole = Math.max(1, ...steps.map(({ to }) => to));
  const rows = steps.map(({ event, from, to }) => {
    const first = Math.min(BAR - 1, Math.floor((from / whole) * BAR));
    const length = Math.max(1, Math.round(((to - from) / whole) * BAR));
    const bar = `${' '.repeat(first)}${'█'.repeat(Math.min(length, BAR - first))}`.padEnd(BAR);
    const isBad = /failed|error|violation/.test(event.event_type);
    const what = event.event_type.replace(/_(succeeded|failed)$/, '');
    const tokens = event.token_input === undefined ? '' : `${event.token_input} in, ${event.token_output ?? 0} out`;
    return [
      what,
      cli.output.style(isBad ? 'red' : 'cyan', bar),
      `${duration(from)} +${duration(to - from)}`,
      event.model ?? textOf(event.payload.tool ?? ''),
      event.error_message ? textOf(event.error_message) : tokens,
      event.cost_usd === undefined ? '' : `$${event.cost_usd.toFixed(6)}`,
    ];
  });
  return table(['step', '', 'at', 'model or tool', 'tokens', 'cost'], rows, Math.max(cli.output.width, 100));
}

export default trace;
