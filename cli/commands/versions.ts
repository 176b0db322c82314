import { ownVersions } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const versions: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Name of the agent')
    .addHelpText('after', '\nExample:\n  $ platform versions hello')
    .action(async (text) => {
      cli.output.result(await ownVersions(cli, text), (all) =>
        table(
          ['version', 'runnable', 'created'],
          all.map((each) => [each.version, String(each.runnable), each.created_at]),
          cli.output.width,
        ),
      );
    });
};

export default versions;
