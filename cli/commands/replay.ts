import { Option } from '@commander-js/extra-typings';
import { UsageError } from '#client/usage-error.ts';
import { runBulk, showBulk } from '../shared/bulk.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';
import { runParams } from '../shared/run-params.ts';

const replay: Configure = (command, cli) => {
  command
    .argument('[run]', 'Run ID or prefix, request ID, or agent name (its latest run)')
    .option('--exhausted', 'Replay all runs whose retries have failed and that were not replayed since')
    .option('--agent <name>', 'With --exhausted: only runs of this agent')
    .option('--from <time>', 'With --exhausted: only runs started at or after this time (default: 7 days ago)')
    .option('--reason <text>', 'Reason to record with the new run')
    .option('-d, --data <json>', 'New input: JSON, @file, or - for stdin')
    .addOption(new Option('--input <json>', 'The same as --data').conflicts(['data']).hideHelp())
    .option('--edit', 'Edit the input in $VISUAL or $EDITOR first')
    .option('--agent-version <version>', 'Version of the agent to run, such as v3 or latest')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform replay hello --reason "the key was wrong"\n  $ platform replay --exhausted --agent hello --yes',
    )
    .action(async (run, { exhausted = false, agent, from, ...options }) => {
      if (exhausted) return replayExhausted(cli, run, { agent_name: agent, from }, options);
      if (run === undefined) throw new UsageError('Name a run, or give --exhausted.');
      if (agent !== undefined || from !== undefined) throw new UsageError('--agent and --from require --exhausted.');
      const client = await cli.client();
      const params = await runParams(cli, run);
      const { data = options.input } = options;
      if (data !== undefined && options.edit) throw new UsageError('Use either --data or --edit, not both.');
      let input = data === undefined ? undefined : await readJson(cli.host, data, '--data');
      if (options.edit) {
        if (!cli.isInteractive) throw new UsageError('--edit requires a terminal. Pass the input with --data instead.');
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
      cli.output.note(`To see its output, run \`platform logs ${started.run_id.slice(0, 8)}\`.`);
    });
};

interface ReplayOptions {
  readonly agentVersion?: string | undefined;
  readonly [option: string]: unknown;
}

async function replayExhausted(
  cli: Cli,
  run: string | undefined,
  filter: { readonly agent_name: string | undefined; readonly from: string | undefined },
  { agentVersion, ...others }: ReplayOptions,
): Promise<void> {
  if (run !== undefined || Object.values(others).some((option) => option !== undefined)) {
    throw new UsageError('--exhausted takes --agent, --from and --agent-version alone.');
  }
  const order = { action: 'replay', filter: { ...filter, exhausted: true }, agent_version: agentVersion } as const;
  const ended = await runBulk(cli, order, (runs) => `Replay ${runs}`);
  showBulk(cli, ended, 'No run has failed in spite of its retries.');
}

export default replay;
