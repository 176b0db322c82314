import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { members, table } from '../shared/output.ts';

const estimate: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .addHelpText('after', '\nExample:\n  $ platform estimate hello')
    .action(async (text) => {
      const { org, agent, version } = await readReference(cli, text);
      const answer = await (await cli.client()).getCostEstimate({ params: { org, agent, version } });
      cli.output.result(answer, ({ estimate: { providers, provider_breakdown: _, ...sums } }) => {
        if (sums.sample_size === 0) return `Not enough runs of ${org}/${agent} for an estimate yet.`;
        const rows = (providers ?? []).map((each) => Object.values(each).map(String));
        const titles = ['provider', 'runs', 'average $', 'p50 $', 'p95 $'];
        return [members(sums), ...(rows.length > 0 ? ['', table(titles, rows, cli.output.width)] : [])].join('\n');
      });
    });
};

export default estimate;
