import { resolve } from 'node:path';
import { heldText } from '#core/base/held-text.ts';
import { addOperation } from '../operation.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { type FollowedEvent, followWorkspace } from '../shared/follow.ts';
import { duration, textOf } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

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
  command
    .command('add-case')
    .description('Append the input of a run to a suite, as a case')
    .argument('<run>', 'Run ID or prefix, request ID, or agent name (its latest run)')
    .requiredOption('--suite <file>', 'Suite that gets the case; it is made if it does not exist')
    .option('--expect', 'The case passes if the output is equal to that of the run')
    .option('--description <text>', 'What the case is about')
    .addHelpText('after', '\nExample:\n  $ platform runs add-case RUN_ID --suite evals/found.yaml')
    .action(async (run, { suite, expect, description }) => {
      const params = await runParams(cli, run);
      const { id, input_data, output_data } = await (await cli.client()).getRun({ params });
      const { addCase } = await import('../evals/add-case.ts');
      const made = { id, input: input_data, ...(expect && { output: output_data }), description };
      await addCase(resolve(cli.host.cwd, suite), made);
      cli.output.result(
        { file: suite, run_id: id },
        () => `${suite} has the input of the run ${id.slice(0, 8)} as a case.`,
      );
    });
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
