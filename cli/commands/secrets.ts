import { UsageError } from '#client/usage-error.ts';
import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { readSecret, readStdin } from '../shared/input.ts';

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
      const value = await secretValue(name, given);
      const params = { workspace_id: await cli.workspaceId() };
      const answer = await (await cli.client()).putSecret({ params, body: { name, value, description } });
      cli.output.result(answer, ({ created }) => `${name} ${created ? 'stored' : 'replaced'}`);
      const restarted = answer.restarted_services.map(({ service_name }) => service_name).join(', ');
      if (restarted !== '') cli.output.note(`Restarted services: ${restarted}`);
    });

  /** Reads the value from stdin. Arguments are visible to other users of the machine, and stored in shell histories. */
  async function secretValue(name: string, given: string | undefined): Promise<string> {
    if (given !== undefined && given !== '-') {
      throw new UsageError('A secret cannot be passed as an argument: other users of this machine could see it.', {
        hint: `Pass it on stdin, as in \`platform secrets set ${name} - < key.txt\`, and replace it if it was real.`,
      });
    }
    const value = given === '-' ? await readStdin(cli.host) : await readSecret(cli, `Value of ${name}`);
    // Editors and `echo` end a file with a line break, which is never part of a key.
    const trimmed = value.replace(/\r?\n$/, '');
    if (trimmed === '')
      throw new UsageError(
        `The value of ${name} is empty. Pass it on stdin, as in \`platform secrets set ${name} < key.txt\`.`,
      );
    return trimmed;
  }
};

export default secrets;
