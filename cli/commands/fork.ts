import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';

const fork: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Public agent with downloadable source: org/agent or org/agent@v2')
    .option('--name <name>', 'Name of the fork')
    .addHelpText(
      'after',
      `
The fork is a private agent in the workspace with the same code and dependencies. Run \`platform pull\` to download its source.

Example:
  $ platform fork main/deliveries --name my-deliveries`,
    )
    .action(async (text, options) => {
      const client = await cli.client();
      const params = { ...(await readReference(cli, text)) };
      const { id } = await client.getPublicAgent({ params });
      const made = await client.forkAgent({ params: { id }, body: { new_name: options.name } });
      const { org_slug, name, version } = made.agent;
      cli.output.result(made, () => `Forked ${params.org}/${params.agent} to ${org_slug}/${name}@${version}`);
      if (made.service_key !== undefined && !cli.output.isJson) {
        cli.output.note(`Service key of the agent (shown only once): ${made.service_key}`);
      }
      cli.output.note(`Run it with \`platform run ${name}\`, or edit it with \`platform pull ${name}\`.`);
    });
};

export default fork;
