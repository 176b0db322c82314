import type { Configure } from '../cli.ts';
import { duration, printable } from '../output.ts';
import { runParams } from '../run-params.ts';

const logs: Configure = (command, cli) => {
  command
    .argument('<run>', 'id of a run, its first digits, a request id, or an agent: its newest run')
    .addHelpText('after', '\nExample:\n  $ platform logs hello')
    .action(async (run: string) => {
      const client = await cli.client();
      const log = await client.getRunLogs({ params: await runParams(cli, run) });
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

export default logs;
