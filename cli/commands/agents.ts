import { ownVersions, readReference } from '../agent-reference.ts';
import type { Configure } from '../cli.ts';
import { readJson } from '../input.ts';
import { members, table } from '../output.ts';

const agents: Configure = (command, cli) => {
  const show = (value: unknown) => cli.output.result(value, (shown) => members(shown as Record<string, unknown>));

  command
    .command('list')
    .description('List the agents of the workspace, each with its newest version; the last published one first')
    .option('--limit <number>', 'one page of so many agents, at most 100 (default: all pages)')
    .option('--cursor <text>', 'the page after this one: `next_cursor` of its last agent')
    .addHelpText('after', '\nExample:\n  $ platform agents list --limit 50')
    .action(async ({ limit, cursor }: { limit?: string; cursor?: string }) => {
      const client = await cli.client();
      const pageAfter = (after: string | undefined) =>
        client.listAgents({
          query: { latest: 'true', limit: limit ?? (cursor === undefined ? 100 : undefined), cursor: after },
        });
      const all = await pageAfter(cursor);
      const next = () => all.at(-1)?.next_cursor ?? undefined;
      if (limit === undefined && cursor === undefined) {
        for (let after = next(); after !== undefined; after = next()) all.push(...(await pageAfter(after)));
      }
      cli.output.result(all, (agents) => {
        const rows = agents.map(({ name, version, versions, current_version, type, last_run }) => [
          name,
          current_version === version ? version : `${version} (runs ${current_version ?? 'none'})`,
          String(versions),
          type,
          last_run ? last_run.started_at.slice(0, 16).replace('T', ' ') : '-',
          last_run ? cli.output.status(last_run.status) : '-',
        ]);
        if (rows.length === 0) cli.output.note('The workspace has no agent: `platform publish` makes one of a folder.');
        if (next()) cli.output.note(`More: platform agents list --limit ${agents.length} --cursor ${next()}`);
        return table(['agent', 'latest', 'versions', 'type', 'last run (UTC)', 'status'], rows, cli.output.width);
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
