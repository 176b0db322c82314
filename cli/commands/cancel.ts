import { UsageError } from '#client/usage-error.ts';
import { runBulk, showBulk } from '../shared/bulk.ts';
import type { Configure } from '../shared/cli.ts';
import { runParams } from '../shared/run-params.ts';

const cancel: Configure = (command, cli) => {
  command
    .argument('[runs...]', 'Run IDs or unique prefixes')
    .option('--agent <name>', 'Cancel the active runs of this agent')
    .option('--agent-version <version>', 'Only runs of this version, such as v3')
    .option('--schedule <id>', 'Only runs of this schedule')
    .option('--source <source>', 'Only runs with this trigger: api, schedule, webhook, ...')
    .option('--tenant <id>', 'Only runs of this tenant')
    .option('--from <time>', 'Only runs started at or after this time (default: 7 days ago)')
    .option('--to <time>', 'Only runs started before this time')
    .option('--all', 'Cancel all active runs of the workspace')
    .addHelpText('after', '\nExample:\n  $ platform cancel --agent hello --yes')
    .action(async (given, { all = false, ...options }) => {
      const filters = Object.values(options).some((option) => option !== undefined);
      if (given.length === 0 ? !filters && !all : filters || all) {
        throw new UsageError('Specify either run IDs or filters such as --agent NAME, --schedule ID or --all.');
      }
      if (given.length === 0) {
        const filter = {
          agent_name: options.agent,
          version: options.agentVersion,
          schedule_id: options.schedule,
          trigger_source: options.source,
          tenant_id: options.tenant,
          from: options.from,
          to: options.to,
        };
        const ended = await runBulk(cli, { action: 'cancel', filter }, (runs) => `Cancel ${runs}`);
        showBulk(cli, ended, 'No matching runs are active.');
        return;
      }
      const client = await cli.client();
      const cancelled = [];
      for (const each of given) {
        const run = await client.cancelRun({ params: await runParams(cli, each) });
        cancelled.push({ id: run.id, agent_name: run.agent_name, status: run.status });
      }
      cli.output.result(cancelled, (list) =>
        list.map(({ id, status }) => `${id} ${cli.output.status(status)}`).join('\n'),
      );
    });
};

export default cancel;
