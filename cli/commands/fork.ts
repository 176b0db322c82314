import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';

const fork: Configure = (command, cli) => {
  command
    .argument('<agent>', 'org/agent or org/agent@v2, public and with its source on offer')
    .option('--name <name>', 'name of the copy')
    .addHelpText(
      'after',
      `
The copy is private, has the same code and dependencies, and belongs to the workspace; \`platform pull\` writes it into a folder.

Example:
  $ platform fork main/deliveries --name my-deliveries`,
    )
    .action(async (text, options) => {
      const client = await cli.client();
      const params = { ...(await readReference(cli, text)) };
      const { id } = await client.getPublicAgent({ params });
      const made = await client.forkAgent({ params: { id }, body: { new_name: options.name } });
      const { org_slug, name, version } = made.agent;
      cli.output.result(made, () => `Copied ${params.org}/${params.agent} to ${org_slug}/${name}@${version}`);
      if (made.service_key !== undefined && !cli.output.isJson) {
        cli.output.note(`Key with which the agent calls others, shown once: ${made.service_key}`);
      }
      cli.output.note(`Call it with \`platform run ${name}\`, change it with \`platform pull ${name}\`.`);
    });
};

export default fork;
