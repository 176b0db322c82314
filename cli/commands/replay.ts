import { type Command, Option } from '@commander-js/extra-typings';
import { UsageError } from '#client/usage-error.ts';
import { runBulk, showBulk } from '../shared/bulk.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { FollowedRun } from '../shared/followed-run.ts';
import { readBytes, readJson, readText } from '../shared/input.ts';
import { printable } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

const declare = (command: Command) =>
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
    .option('--from-turn <number>', 'Begin again from this turn of a durable loop, and wait for the result')
    .option('--message <text>', 'With --from-turn: message to the model before that turn, or - for stdin')
    .addOption(new Option('--message-file <file>', 'The same from a file').conflicts(['message']))
    .option(
      '--tool-result <turn.call=file>',
      'With --from-turn: new result of an earlier call, such as 2.1=result.txt (repeatable)',
      (given, all: string[] | undefined): string[] => [...(all ?? []), given],
    )
    .option('--model <model>', 'With --from-turn: model that continues, as provider/model')
    .option('--detach', 'With --from-turn: print the run ID without waiting for the result');

type ReplayOptions = ReturnType<ReturnType<typeof declare>['opts']>;

const replay: Configure = (command, cli) => {
  declare(command)
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform replay hello --reason "the key was wrong"\n  $ platform replay --exhausted --agent hello --yes\n  $ platform replay 5f0c1a2 --from-turn 3 --message "Use the new price list."',
    )
    .action(async (run, { exhausted, agent, from, ...options }) => {
      if (exhausted) return replayExhausted(cli, run, { agent_name: agent, from }, options);
      if (run === undefined) throw new UsageError('Name a run, or give --exhausted.');
      if (agent !== undefined || from !== undefined) throw new UsageError('--agent and --from require --exhausted.');
      const branch = await branchOf(cli, options);
      const client = await cli.client();
      const params = await runParams(cli, run);
      const input = await inputOf(cli, options, async () => (await client.getRun({ params })).input_data);
      const body = {
        reason: options.reason,
        agent_version: options.agentVersion,
        ...(input !== undefined && { input: input as Record<string, unknown> }),
        ...branch,
      };
      const started = await client.replayRun({ params, body });
      if (branch !== undefined && !options.detach) return follow(cli, started.run_id);
      cli.output.result(started, ({ run_id }) => run_id);
      cli.output.note(`To see its output, run \`platform logs ${started.run_id.slice(0, 8)}\`.`);
    });
};

async function inputOf(
  cli: Cli,
  { data: given, input, edit }: ReplayOptions,
  stored: () => Promise<unknown>,
): Promise<unknown> {
  const data = given ?? input;
  if (data !== undefined && edit) throw new UsageError('Use either --data or --edit, not both.');
  if (data !== undefined) return readJson(cli.host, data, '--data');
  if (!edit) return undefined;
  if (!cli.isInteractive) throw new UsageError('--edit requires a terminal. Pass the input with --data instead.');
  const { editJson } = await import('../shared/edit.ts');
  return editJson(cli.host, await stored());
}

/** Reads the options of a branch; `undefined` for a replay from the beginning. */
async function branchOf(
  cli: Cli,
  { fromTurn, messageFile, toolResult = [], model, detach, ...options }: ReplayOptions,
) {
  if (fromTurn === undefined) {
    const isBranch = options.message ?? messageFile ?? toolResult[0] ?? model ?? detach;
    if (isBranch === undefined) return undefined;
    throw new UsageError('--message, --message-file, --tool-result, --model and --detach require --from-turn.');
  }
  if (!/^[1-9]\d{0,2}$/.test(fromTurn)) {
    throw new UsageError(`Invalid --from-turn "${fromTurn}": must be the number of a turn, from 1.`);
  }
  const message =
    messageFile === undefined
      ? options.message && (await readText(cli.host, options.message))
      : (await readBytes(cli.host, messageFile)).toString();
  const tool_results = [];
  for (const given of toolResult) tool_results.push(await resultOf(cli, given));
  return {
    from_turn: Number(fromTurn),
    ...(message !== undefined && { message }),
    ...(tool_results.length > 0 && { tool_results }),
    ...(model !== undefined && { model }),
  };
}

async function resultOf(cli: Cli, given: string) {
  const [, turn, call, file] = /^(\d{1,3})\.(\d{1,3})=(.+)$/.exec(given) ?? [];
  if (file === undefined) {
    throw new UsageError(
      `Invalid --tool-result "${given}": must be turn.call=file, such as 2.1=result.txt for the first call of turn 2.`,
    );
  }
  return { turn: Number(turn), call: Number(call), text: (await readBytes(cli.host, file)).toString() };
}

/** Follows a run to its end and prints its result. Throws the run's error. */
async function follow(cli: Cli, runId: string): Promise<void> {
  const short = runId.slice(0, 8);
  cli.output.note(`Run ${short} begins. It continues if you leave: \`platform logs ${short} -f\`.`);
  const run = new FollowedRun(cli, await cli.client(), runId, () => cli.workspaceId());
  try {
    const answer = { run_id: runId, ...(await run.follow()) };
    cli.output.result(answer, ({ data }) =>
      typeof data === 'string' ? printable(data) : JSON.stringify(data, null, 2),
    );
  } finally {
    run.bar.end();
  }
}

async function replayExhausted(
  cli: Cli,
  run: string | undefined,
  filter: { readonly agent_name: string | undefined; readonly from: string | undefined },
  { agentVersion, ...others }: Omit<ReplayOptions, 'exhausted' | 'agent' | 'from'>,
): Promise<void> {
  if (run !== undefined || Object.values(others).some((option) => option !== undefined)) {
    throw new UsageError('--exhausted takes --agent, --from and --agent-version alone.');
  }
  const order = { action: 'replay', filter: { ...filter, exhausted: true }, agent_version: agentVersion } as const;
  const ended = await runBulk(cli, order, (runs) => `Replay ${runs}`);
  showBulk(cli, ended, 'No run has failed in spite of its retries.');
}

export default replay;
