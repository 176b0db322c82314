import { UsageError } from '#client/usage-error.ts';
import { runBulk } from '../shared/bulk.ts';
import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

const cancel: Configure = (command, cli) => {
  command
    .argument('[runs...]', 'ids of runs, or their first digits')
    .option('--agent <name>', 'every running run of this agent')
    .option('--agent-version <version>', 'of this version of it, such as v3')
    .option('--schedule <id>', 'that this schedule began')
    .option('--source <source>', 'that were started by this: api, schedule, webhook, ...')
    .option('--tenant <id>', 'of this tenant')
    .option('--from <time>', 'that started at this time or later; by default in the last 7 days')
    .option('--to <time>', 'that started before this time')
    .option('--all', 'every running run of the workspace')
    .addHelpText('after', '\nExample:\n  $ platform cancel --agent hello --yes')
    .action(async (given, { all = false, ...options }) => {
      const filters = Object.values(options).some((option) => option !== undefined);
      if (given.length === 0 ? !filters && !all : filters || all) {
        throw new UsageError('Name runs, or say which: --agent NAME, --schedule ID, --all, ...');
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
        const ended = await runBulk(cli, { action: 'cancel', filter }, (runs) => `Cancels ${runs}`);
        if (ended === undefined) cli.output.note('No run is under way.');
        const { id, status, message, total, done, skipped, failed } = ended ?? NONE;
        cli.output.result({ id, status, message, total, done, skipped, failed }, members);
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

const NONE = { id: null, status: 'completed', message: null, total: 0, done: 0, skipped: 0, failed: 0 } as const;

export default cancel;
