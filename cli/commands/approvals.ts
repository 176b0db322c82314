import { addOperation } from '../operation.ts';
import { approvalLine } from '../shared/approvals.ts';
import type { Configure } from '../shared/cli.ts';

const POLL_MS = 2_000;

const approvals: Configure = (command, cli) => {
  addOperation(command, cli, {
    name: 'approvals',
    operation: 'listApprovals',
    list: 'approvals',
    columns: ['id', 'agent_name', 'kind', 'status', 'tool', 'arguments', 'question', 'expires_at'],
    named: { agent_name: 'agent', run_id: 'run' },
    example: 'approvals --status waiting',
    async instead({ watch, agent }) {
      if (watch !== true) return false;
      cli.output.note('Watching what waits for a decision. Press Ctrl-C to stop.');
      const client = await cli.client();
      const params = { workspace_id: await cli.workspaceId() };
      const shown = new Set<string>();
      for (;;) {
        const query = { status: 'waiting', limit: 200, agent_name: agent as string | undefined } as const;
        const { approvals: waiting } = await client.listApprovals({ params, query });
        for (const each of waiting.toReversed()) {
          if (!shown.has(each.id)) cli.output.item(each, () => approvalLine(each));
          shown.add(each.id);
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
  });
  command.option('-w, --watch', 'Show each call that begins to wait; filter with --agent');
};

export default approvals;
