import type { Configure } from '../cli.ts';
import { runParams } from '../run-params.ts';

const replay: Configure = (command, cli) => {
  command
    .argument('<run>', 'id of a run, its first digits, a request id, or an agent: its newest run')
    .option('--reason <text>', 'kept with the new run')
    .addHelpText('after', '\nExample:\n  $ platform replay hello --reason "the key was wrong"')
    .action(async (run: string, { reason }: { reason?: string }) => {
      const client = await cli.client();
      const started = await client.replayRun({ params: await runParams(cli, run), body: { reason } });
      cli.output.result(started, ({ run_id }) => run_id);
      cli.output.note(`Watch it with \`platform logs ${started.run_id.slice(0, 8)}\`.`);
    });
};

export default replay;
