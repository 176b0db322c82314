import { ownVersions } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

/** What keeps a version from being latest, or kept it; the name of a preview. */
const gateOf = ({ gate, preview }: Awaited<ReturnType<typeof ownVersions>>[number]): string =>
  preview ? `preview ${preview.name}` : (gate?.status ?? '');

const versions: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Name of the agent')
    .addHelpText('after', '\nExample:\n  $ platform versions hello')
    .action(async (text) => {
      cli.output.result(await ownVersions(cli, text, { withPreviews: true }), (all) =>
        table(
          ['version', 'runnable', 'gate', 'created'],
          all.map((each) => [each.version, String(each.runnable), gateOf(each), each.created_at]),
          cli.output.width,
        ),
      );
    });
};

export default versions;
