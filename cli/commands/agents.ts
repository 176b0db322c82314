import { ownVersions, readReference } from '../agent-reference.ts';
import type { Configure } from '../cli.ts';
import { readJson } from '../input.ts';
import { members, table } from '../output.ts';

const agents: Configure = (command, cli) => {
  const show = (value: unknown) => cli.output.result(value, (shown) => members(shown as Record<string, unknown>));

  command
    .command('list')
    .description('List the agents of the workspace, each with its newest version')
    .addHelpText('after', '\nExample:\n  $ platform agents list')
    .action(async () => {
      const all = await (await cli.client()).listAgents({});
      cli.output.result(all, (versions) => {
        const newest = new Map<string, (typeof all)[number]>();
        for (const each of versions) {
          const known = newest.get(each.name);
          if (!known || Number(each.version.slice(1)) > Number(known.version.slice(1))) newest.set(each.name, each);
        }
        const rows = [...newest.values()].map((each) => [
          each.name,
          each.version,
          each.type,
          each.runnable ? 'yes' : (each.environment_status ?? 'no'),
          each.description ?? '',
        ]);
        if (rows.length === 0) cli.output.note('The workspace has no agent: `platform publish` makes one of a folder.');
        return table(['agent', 'version', 'type', 'runnable', 'description'], rows, cli.output.width);
      });
    });

  command
    .command('info')
    .description('Show an agent of the workspace')
    .argument('<agent>', 'agent or agent@v2')
    .addHelpText('after', '\nExample:\n  $ platform agents info hello')
    .action(async (text: string) => show((await ownVersions(cli, text))[0]));

  command
    .command('versions')
    .description('List the versions of an agent, newest first')
    .argument('<agent>')
    .addHelpText('after', '\nExample:\n  $ platform agents versions hello')
    .action(async (text: string) => {
      cli.output.result(await ownVersions(cli, text), (all) =>
        table(
          ['version', 'runnable', 'created'],
          all.map((each) => [each.version, String(each.runnable), each.created_at]),
          cli.output.width,
        ),
      );
    });

  command
    .command('tree')
    .description('Show an agent with all that it calls')
    .argument('<agent>')
    .addHelpText('after', '\nExample:\n  $ platform agents tree hello')
    .action(async (text: string) => {
      const { org, agent, version } = await readReference(cli, text);
      cli.output.result(await (await cli.client()).getAgentTree({ params: { id: org, agent, version } }));
    });

  command
    .command('update')
    .description('Change what may be changed of a published version')
    .argument('<agent>')
    .argument('<json>', 'the members to change: JSON, @file, or - for stdin')
    .addHelpText('after', '\nExample:\n  $ platform agents update hello \'{"description": "Greets people"}\'')
    .action(async (text: string, json: string) => {
      const [version] = await ownVersions(cli, text);
      const body = (await readJson(cli.host, json)) as Record<string, unknown>;
      show(await (await cli.client()).updateAgent({ params: { id: version!.id }, body }));
    });

  command
    .command('delete')
    .description('Delete a version (agent@v2), or an agent with all its versions; kept for 30 days')
    .argument('<agent>')
    .addHelpText('after', '\nExample:\n  $ platform agents delete hello@v1 --yes')
    .action(async (text: string) => {
      const isOne = text.includes('@v');
      const [version] = await ownVersions(cli, text);
      const { id, name } = version!;
      await cli.confirm(isOne ? `Deletes ${text}` : `Deletes ${name} with all its versions`);
      const query = { ...(!isOne && { mode: 'all_versions' as const }), confirmation_name: name };
      show(await (await cli.client()).deleteAgent({ params: { id }, query }));
    });
};

export default agents;
