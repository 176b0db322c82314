import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';
import { runParams } from '../shared/run-params.ts';

const replay: Configure = (command, cli) => {
  command
    .argument('<run>', 'id of a run, its first digits, a request id, or an agent: its newest run')
    .option('--reason <text>', 'kept with the new run')
    .option('--data <json>', 'another input: JSON, @file, or - for stdin')
    .option('--edit', 'edit the input first, in $VISUAL or $EDITOR')
    .option('--agent-version <version>', 'another version of the agent: v3, or latest')
    .addHelpText('after', '\nExample:\n  $ platform replay hello --reason "the key was wrong"')
    .action(async (run, options) => {
      const client = await cli.client();
      const params = await runParams(cli, run);
      if (options.data !== undefined && options.edit) throw new UsageError('Say --data or --edit, not both.');
      let input = options.data === undefined ? undefined : await readJson(cli.host, options.data, '--data');
      if (options.edit) {
        if (!cli.isInteractive) throw new UsageError('There is no terminal to edit on: give the input with --data.');
        const { editJson } = await import('../shared/edit.ts');
        input = await editJson(cli.host, (await client.getRun({ params })).input_data);
      }
      const body = {
        reason: options.reason,
        agent_version: options.agentVersion,
        ...(input !== undefined && { input: input as Record<string, unknown> }),
      };
      const started = await client.replayRun({ params, body });
      cli.output.result(started, ({ run_id }) => run_id);
      cli.output.note(`Watch it with \`platform logs ${started.run_id.slice(0, 8)}\`.`);
    });
};

export default replay;
