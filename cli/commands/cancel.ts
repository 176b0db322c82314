import type { Configure } from '../cli.ts';
import { UsageError } from '../failure.ts';
import { runParams } from '../run-params.ts';

const MAX_AT_ONCE = 200;

const cancel: Configure = (command, cli) => {
  command
    .argument('[runs...]', 'ids of runs, or their first digits')
    .option('--agent <name>', 'every running run of this agent')
    .option('--all', 'every running run of the workspace')
    .addHelpText('after', '\nExample:\n  $ platform cancel --agent hello --yes')
    .action(async (given: string[], { agent, all = false }: { agent?: string; all?: boolean }) => {
      const client = await cli.client();
      const workspace_id = await cli.workspaceId();
      if (given.length === 0 && agent === undefined && !all) {
        throw new UsageError('Name runs, or say --agent NAME or --all.');
      }
      const ids = await Promise.all(given.map(async (each) => (await runParams(cli, each)).run_id));
      if (given.length === 0) {
        const query = { status: 'running' as const, agent_name: agent, limit: MAX_AT_ONCE };
        const { runs } = await client.listRuns({ params: { workspace_id }, query });
        ids.push(...runs.map(({ id }) => id));
        for (const run of runs) cli.output.note(`${run.id.slice(0, 8)}  ${run.agent_name}@${run.agent_version}`);
        if (ids.length > 0) await cli.confirm(`Cancels ${ids.length} runs`);
      }
      const cancelled = [];
      for (const run_id of ids) {
        const run = await client.cancelRun({ params: { workspace_id, run_id } });
        cancelled.push({ id: run.id, agent_name: run.agent_name, status: run.status });
      }
      cli.output.result(cancelled, (list) =>
        list.map(({ id, status }) => `${id} ${cli.output.status(status)}`).join('\n'),
      );
      if (ids.length === 0) cli.output.note('No run is under way.');
    });
};

export default cancel;
