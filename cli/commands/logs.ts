import { EXIT, UsageError } from '#client/usage-error.ts';
import { resumedText } from '#core/base/attempt-text.ts';
import { waitingText } from '../shared/approvals.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { type FollowedEvent, followRun } from '../shared/follow.ts';
import { duration, printable, textOf } from '../shared/output.ts';
import { RunBar } from '../shared/run-bar.ts';
import { runParams } from '../shared/run-params.ts';

const logs: Configure = (command, cli) => {
  command
    .argument('<run>', 'Run ID or prefix, request ID, or agent name (its latest run)')
    .option('-f, --follow', 'Stream the output until the run ends')
    .addHelpText('after', '\nExample:\n  $ platform logs hello')
    .action(async (run, options) => {
      const client = await cli.client();
      const params = await runParams(cli, run);
      if (options.follow) return showLive(cli, params);
      const log = await client.getRunLogs({ params });
      cli.output.result(log, () => {
        const part = (title: string, text: string | null) =>
          text === null || text === '' ? [] : [cli.output.style('bold', title), printable(text).trimEnd()];
        const took = log.execution_time_ms === null ? '' : ` after ${duration(log.execution_time_ms)}`;
        return [
          `${log.agent_name}@${log.agent_version} ${cli.output.status(log.run_status ?? '-')}${took}`,
          ...part('stdout', log.stdout),
          ...part('stderr', log.stderr),
          ...part('output', log.output_data === null ? null : JSON.stringify(log.output_data, null, 2)),
          ...part('error', log.error_message),
        ].join('\n');
      });
    });
};

/** Streams the output of a run, or its events as JSON lines. Throws UsageError with status 1 if the run fails. */
async function showLive(cli: Cli, params: Awaited<ReturnType<typeof runParams>>): Promise<void> {
  const bar = new RunBar(cli);
  const stop = cli.output.isLive
    ? cli.host.onInterrupt(() => {
        bar.end();
        cli.host.exit(EXIT.interrupted);
      })
    : () => {};
  try {
    await bar.read(await cli.client(), params);
    for await (const event of followRun(cli, params)) {
      bar.tell(event);
      show(cli, event);
    }
  } finally {
    bar.end();
    stop();
  }
}

/** Shows one event. Throws UsageError if it is the end of a run that failed. */
function show(cli: Cli, event: FollowedEvent): void {
  const { type, data } = event;
  if (cli.output.isJson) cli.output.item(event, () => '');
  else if (type === 'progress' && typeof data.text === 'string') cli.output.part(printable(data.text));
  else if (type === 'progress' && data.type === 'resumed') cli.output.note(resumedText(data));
  else if (type === 'progress' && data.type === 'waiting') cli.output.note(waitingText(data));
  if (type !== 'end') return;
  const status = String(data.status);
  cli.output.note(`${cli.output.status(status)} after ${duration(data.duration_ms as number | null)}`);
  if (status !== 'completed') {
    throw new UsageError(textOf(data.error_message ?? `The run ended with status ${status}.`), {
      exitCode: EXIT.failed,
    });
  }
}

export default logs;
