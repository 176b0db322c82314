import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';

interface Node {
  readonly agent: string;
  readonly type: string | null;
  readonly skills: readonly string[];
  readonly accessible?: boolean;
  readonly repeated?: boolean;
  readonly dependencies: readonly unknown[];
}

const tree: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .addHelpText('after', '\nExample:\n  $ platform tree hello')
    .action(async (text) => {
      const { org, agent, version } = await readReference(cli, text);
      const answer = await (await cli.client()).getAgentTree({ params: { id: org, agent, version } });
      cli.output.result(answer, (root) => linesOf(root).join('\n'));
    });
};

function linesOf(node: Node, depth = 0): string[] {
  const facts = [
    node.accessible === false ? 'not accessible' : node.type,
    node.repeated && 'shown above',
    node.skills.length > 0 && `skills: ${node.skills.join(', ')}`,
  ];
  const own = `${'  '.repeat(depth)}${node.agent}  ${facts.filter(Boolean).join('; ')}`;
  return [own, ...node.dependencies.flatMap((each) => linesOf(each as Node, depth + 1))];
}

export default tree;
