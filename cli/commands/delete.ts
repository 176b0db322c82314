import { ownVersions } from '../agent-reference.ts';
import type { Configure } from '../cli.ts';
import { members } from '../output.ts';

const remove: Configure = (command, cli) => {
  command
    .argument('<agent>', 'agent@v2 for one version; agent for all of them')
    .addHelpText('after', '\nExample:\n  $ platform delete hello@v1 --yes')
    .action(async (text: string) => {
      const isOne = text.includes('@v');
      const [version] = await ownVersions(cli, text);
      const { id, name } = version!;
      await cli.confirm(isOne ? `Deletes ${text}` : `Deletes ${name} with all its versions`);
      const query = { ...(!isOne && { mode: 'all_versions' as const }), confirmation_name: name };
      const answer = await (await cli.client()).deleteAgent({ params: { id }, query });
      cli.output.result(answer, (shown) => members({ ...shown }));
    });
};

export default remove;
