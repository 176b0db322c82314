import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { secretArgument } from '../shared/secret-argument.ts';

const secrets: Configure = (command, cli) => {
  operations([
    {
      name: 'list',
      operation: 'listSecrets',
      list: 'secrets',
      columns: ['name', 'secret_type', 'description', 'updated_at'],
      example: 'secrets list',
    },
    {
      name: 'delete',
      operation: 'deleteSecret',
      confirm: 'Delete the secret',
      example: 'secrets delete WEATHER_KEY --yes',
    },
  ])(command, cli);
  command
    .command('set')
    .description('Create or replace a secret; the value is read from stdin or prompted for')
    .argument('<NAME>', 'Name of the secret, such as WEATHER_KEY')
    .argument('[value]', 'Only -, for stdin: other users of the machine can see arguments')
    .option('--description <text>', 'Description of the secret')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform secrets set WEATHER_KEY\n  $ platform secrets set WEATHER_KEY - < key.txt',
    )
    .action(async (name, given, { description }) => {
      const value = await secretArgument(cli, {
        given,
        label: `Value of ${name}`,
        command: `platform secrets set ${name}`,
      });
      const params = { workspace_id: await cli.workspaceId() };
      const answer = await (await cli.client()).putSecret({ params, body: { name, value, description } });
      cli.output.result(answer, ({ created }) => `${name} ${created ? 'stored' : 'replaced'}`);
      const restarted = answer.restarted_services.map(({ service_name }) => service_name).join(', ');
      if (restarted !== '') cli.output.note(`Restarted services: ${restarted}`);
    });
};

export default secrets;
