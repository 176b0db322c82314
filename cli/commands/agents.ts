import { newestVersions } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const agents: Configure = (command, cli) => {
  command
    .option('--limit <number>', 'Maximum number of agents, up to 100 (default: all)')
    .option('--cursor <text>', 'Cursor of the next page: `next_cursor` of the last agent')
    .addHelpText('after', '\nExample:\n  $ platform agents --limit 50')
    .action(async ({ limit, cursor }) => {
      const client = await cli.client();
      const isWhole = limit === undefined && cursor === undefined;
      const all = isWhole
        ? await newestVersions(client)
        : await client.listAgents({ query: { latest: 'true', limit, cursor } });
      const next = all.at(-1)?.next_cursor ?? undefined;
      cli.output.result(all, (agents) => {
        const rows = agents.map(({ name, version, versions, current_version, type, last_run }) => [
          name,
          current_version === version ? version : `${version} (runs ${current_version ?? 'none'})`,
          String(versions),
          type,
          last_run ? last_run.started_at.slice(0, 16).replace('T', ' ') : '-',
          last_run ? cli.output.status(last_run.status) : '-',
        ]);
        if (rows.length === 0)
          cli.output.note('The workspace has no agents. Create one with `platform init`, then run `platform publish`.');
        if (next) cli.output.note(`Next page: platform agents --limit ${agents.length} --cursor ${next}`);
        return table(['agent', 'latest', 'versions', 'type', 'last run (UTC)', 'status'], rows, cli.output.width);
      });
    });
};

export default agents;
