import { heldText } from '#core/base/held-text.ts';
import { addOperation } from '../operation.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { type FollowedEvent, followWorkspace } from '../shared/follow.ts';
import { duration, textOf } from '../shared/output.ts';

type Held = Parameters<typeof heldText>[0];

const runs: Configure = (command, cli) => {
  addOperation(command, cli, {
    name: 'runs',
    operation: 'listRuns',
    list: 'runs',
    columns: [
      'id',
      'agent_name',
      'agent_version',
      'status',
      'trigger_source',
      'started_at',
      'duration_ms',
      'error_message',
    ],
    cells: { error_message: ({ held_by, error_message }) => (held_by ? heldText(held_by as Held) : error_message) },
    named: { agent_name: 'agent', schedule_id: 'schedule', trigger_source: 'source', tenant_id: 'tenant' },
    example: 'runs --status failed --agent hello',
    async instead({ watch, agent, agentName = agent }) {
      if (watch !== true) return false;
      cli.output.note('Watching the runs of the workspace. Press Ctrl-C to stop.');
      for await (const event of followWorkspace(cli, 'run')) {
        if (agentName !== undefined && event.data.agent_name !== agentName) continue;
        cli.output.item(event, () => lineOf(cli, event));
      }
      return true;
    },
  });
  command.option('-w, --watch', 'Show runs as they start and end; filter with --agent');
};

/** `docs/interface/events.md` describes `data`. */
function lineOf({ output }: Cli, { type, created_at, data }: FollowedEvent): string {
  const status = type === 'run.started' ? 'running' : String(data.status);
  const facts = type === 'run.started' ? textOf(data.trigger_source) : duration(data.duration_ms as number | null);
  return [
    output.style('dim', created_at.slice(11, 19)),
    String(data.run_id).slice(0, 8),
    `${textOf(data.agent_name)}@${textOf(data.agent_version)}`,
    output.status(status),
    facts,
    data.error_message ? textOf(data.error_message) : '',
  ]
    .join('  ')
    .trimEnd();
}

export default runs;
