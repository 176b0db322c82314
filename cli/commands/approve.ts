import { UsageError } from '#client/usage-error.ts';
import { approvalLine, findWaiting } from '../shared/approvals.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';

const approve: Configure = (command, cli) => {
  command
    .argument('<id>', 'ID of what waits, as `platform approvals` shows it, or the first digits of its run')
    .option('--deny', 'Refuse the call')
    .option('--reason <text>', 'Why; the model is told why a call was refused')
    .option('--args <json>', 'Approve with these arguments instead: JSON, @file, or - for stdin')
    .option('--for-run', 'Approve later calls of the same tool in this run, too')
    .option('--answer <text>', 'Answer a question; with --json-answer, the answer is JSON')
    .option('--json-answer', 'Read --answer as JSON, @file, or - for stdin')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform approve 7f3a9c21\n  $ platform approve 7f3a9c21 --deny --reason "paid already"\n  $ platform approve 7f3a9c21 --answer blue',
    )
    .action(async (id, { deny = false, reason, args, forRun = false, answer, jsonAnswer = false }) => {
      if (answer !== undefined && (deny || reason !== undefined || args !== undefined || forRun)) {
        throw new UsageError('--answer goes with a question; --deny, --reason, --args and --for-run go with a call.');
      }
      if (deny && (args !== undefined || forRun))
        throw new UsageError('--args and --for-run go with an approval, not with --deny.');
      if (jsonAnswer && answer === undefined) throw new UsageError('--json-answer requires --answer.');
      const client = await cli.client();
      const workspace_id = await cli.workspaceId();
      const waiting = await findWaiting(client, workspace_id, id);
      cli.output.note(approvalLine(waiting));
      if (waiting.kind === 'answer' && answer === undefined) {
        throw new UsageError('This is a question: answer it with --answer.');
      }
      const body =
        answer !== undefined
          ? { decision: 'answer' as const, answer: jsonAnswer ? await readJson(cli.host, answer, '--answer') : answer }
          : {
              decision: deny ? ('deny' as const) : ('approve' as const),
              reason,
              ...(args !== undefined && {
                arguments: (await readJson(cli.host, args, '--args')) as Record<string, unknown>,
              }),
              ...(forRun && { for: 'run' as const }),
            };
      const params = { workspace_id, approval_id: waiting.id };
      const decided = await client.decideApproval({ params, body });
      cli.output.result(decided, ({ status }) => status);
      cli.output.note(`To follow the run, run \`platform logs ${decided.run_id.slice(0, 8)} -f\`.`);
    });
};

export default approve;
