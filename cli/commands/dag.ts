import type { Cli, Configure } from '../shared/cli.ts';
import { duration } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

type Dag = Awaited<ReturnType<Awaited<ReturnType<Cli['client']>>['getRunDag']>>;

const dag: Configure = (command, cli) => {
  command
    .argument('<run>', 'Run ID or prefix, request ID, or agent name (its latest run)')
    .addHelpText('after', '\nExample:\n  $ platform dag hello')
    .action(async (run) => {
      const found = await (await cli.client()).getRunDag({ params: await runParams(cli, run) });
      cli.output.result(found, ({ tree, node_count, total_cost_usd, total_duration_ms }) =>
        [
          ...lines(cli, tree, '', ''),
          `${node_count} runs, ${duration(total_duration_ms)}, $${total_cost_usd.toFixed(6)}`,
        ].join('\n'),
      );
    });
};

function lines(cli: Cli, node: Dag['tree'], own: string, below: string): string[] {
  const cost = node.subtree_cost_usd > 0 ? ` $${node.subtree_cost_usd.toFixed(6)} (${node.cost_pct}%)` : '';
  const name = `${node.agent_name}@${node.agent_version}`;
  const facts = `${cli.output.status(node.status)} ${duration(node.duration_ms)}${cost}`;
  const children = node.children as Dag['tree'][];
  return [
    `${own}${name} ${cli.output.style('dim', node.run_id.slice(0, 8))} ${facts}`,
    ...children.flatMap((child, index) => {
      const isLast = index === children.length - 1;
      return lines(cli, child, `${below}${isLast ? '└─ ' : '├─ '}`, `${below}${isLast ? '   ' : '│  '}`);
    }),
  ];
}

export default dag;
