import { visibleVersion } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const info: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .addHelpText('after', '\nExample:\n  $ platform info hello')
    .action(async (text) => {
      cli.output.result(await visibleVersion(cli, text), (version) => members({ ...version }));
    });
};

export default info;
