import { UsageError } from '#client/usage-error.ts';
import { ownVersions } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { members, table } from '../shared/output.ts';

/**
 * Static service keys that let the programs of an agent make calls from anywhere. All versions of an agent share them.
 */
const agentKeys: Configure = (command, cli) => {
  command
    .command('list')
    .description('List the service keys of an agent')
    .argument('<agent>')
    .addHelpText('after', '\nExample:\n  $ platform agent-keys list hello')
    .action(async (agent) => {
      const { keys } = await (await cli.client()).listServiceKeys({ params: { id: await idOf(cli, agent) } });
      if (keys.length === 0) cli.output.note('No keys.');
      cli.output.result(keys, (all) =>
        table(
          ['id', 'prefix', 'created', 'last used'],
          all.map(({ id, prefix, created_at, last_used_at }) => [id, prefix, created_at, last_used_at ?? '-']),
          cli.output.width,
        ),
      );
    });

  command
    .command('create')
    .description('Create a key for an agent; it is shown only once')
    .argument('<agent>')
    .addHelpText('after', '\nExample:\n  $ platform agent-keys create hello')
    .action(async (agent) => {
      const params = { id: await idOf(cli, agent) };
      cli.output.result(await (await cli.client()).createServiceKey({ params }), members);
    });

  command
    .command('delete')
    .description('Revoke a service key of an agent')
    .argument('<agent>')
    .argument('<key>', 'Key ID or a unique prefix of it')
    .addHelpText('after', '\nExample:\n  $ platform agent-keys delete hello AGENT_KEY_ID --yes')
    .action(async (agent, given) => {
      const id = await idOf(cli, agent);
      const client = await cli.client();
      const { keys } = await client.listServiceKeys({ params: { id } });
      const [found, ...others] = keys.filter((key) => key.id.startsWith(given));
      if (found === undefined || others.length > 0) {
        const why = found === undefined ? 'No key' : 'More than one key';
        throw new UsageError(`${why} of the agent "${agent}" matches "${given}".`, { exitCode: 4 });
      }
      await cli.confirm(`Revoke the key ${found.prefix}…; programs that use it lose access`);
      cli.output.result(await client.deleteServiceKey({ params: { id, key_id: found.id } }), members);
    });
};

const idOf = async (cli: Cli, agent: string): Promise<string> => (await ownVersions(cli, agent))[0]!.id;

export default agentKeys;
