import { visibleVersion } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { printable } from '../shared/output.ts';

const schema: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .addHelpText('after', '\nExample:\n  $ platform schema hello')
    .action(async (text) => {
      const { org_slug, name, version, input_schema, output_schema } = await visibleVersion(cli, text);
      const agent = `${org_slug}/${name}@${version}`;
      cli.output.result({ agent, input_schema, output_schema }, () => {
        const shown = (title: string, value: object | null) => [
          cli.output.style('bold', `${title} of ${agent}`),
          value === null ? 'any' : printable(JSON.stringify(value, null, 2)),
        ];
        return [...shown('input', input_schema), ...shown('output', output_schema)].join('\n');
      });
    });
};

export default schema;
