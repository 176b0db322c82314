import { ownVersions } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const remove: Configure = (command, cli) => {
  command
    .argument('<agent>', 'agent@v2 for one version, or agent for all versions')
    .addHelpText('after', '\nExample:\n  $ platform delete hello@v1 --yes')
    .action(async (text) => {
      const isOne = text.includes('@v');
      const [version] = await ownVersions(cli, text);
      const { id, name } = version!;
      const client = await cli.client();
      const mode = isOne ? {} : { mode: 'all_versions' as const };
      const { version_count, fork_count } = await client.checkAgentDeletion({ params: { id }, query: mode });
      const versions = version_count === 1 ? 'its only version' : `its ${version_count} versions`;
      const forks = fork_count === 1 ? '; its fork is kept' : `; its ${fork_count} forks are kept`;
      await cli.confirm(`Delete ${isOne ? text : `${name} with ${versions}`}${fork_count === 0 ? '' : forks}`);
      const answer = await client.deleteAgent({ params: { id }, query: { ...mode, confirmation_name: name } });
      cli.output.result(answer, (shown) => members({ ...shown }));
    });
};

export default remove;
