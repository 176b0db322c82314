import type { Json } from '#core/base/json.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';
import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { findId, formsOf } from '../shared/find-id.ts';
import { routeOf } from '../shared/route-of.ts';
import { isResponse } from '../signing-in/connection.ts';

const rows = operations([
  {
    name: 'list',
    operation: 'listSessions',
    list: 'sessions',
    columns: ['id', 'agent', 'external_id', 'title', 'status', 'messages', 'last_message_at'],
    named: { tenant_id: 'tenant' },
    example: 'sessions list --agent main/hello',
  },
  { name: 'show', operation: 'getAgentSession', isOfTenant: true, example: 'sessions show order-17' },
  {
    name: 'open',
    operation: 'openSession',
    isOfTenant: true,
    args: ['agent'],
    named: { external_id: 'name' },
    example: 'sessions open main/hello --name order-17',
  },
  {
    name: 'messages',
    operation: 'listSessionMessages',
    isOfTenant: true,
    list: 'items',
    columns: ['number', 'status', 'input', 'output', 'created_at'],
    cells: { input: ({ input }) => words(input), output: ({ output }) => words(output) },
    example: 'sessions messages order-17',
  },
  {
    name: 'update',
    operation: 'updateSession',
    isOfTenant: true,
    example: "sessions update order-17 --title 'The order of Ada'",
  },
  { name: 'fork', operation: 'forkSession', isOfTenant: true, args: ['after'], example: 'sessions fork order-17 1' },
  { name: 'interrupt', operation: 'interruptSession', isOfTenant: true, example: 'sessions interrupt order-17' },
  {
    name: 'delete',
    operation: 'deleteAgentSession',
    isOfTenant: true,
    confirm: 'Erase all that was said in the session',
    example: 'sessions delete order-17 --yes',
  },
]);

const words = (said: unknown): string | null => (said === null ? null : textOfAnswer(said as Json));

const sessions: Configure = (command, cli) => {
  rows(command, cli);
  command
    .command('export')
    .description('Print a session as JSON lines: first the session, then each message')
    .argument('<session>', formsOf('session_id', routeOf('exportSession').path))
    .option('--tenant <id>', 'Your customer, to whom it belongs')
    .addHelpText('after', '\nExample:\n  $ platform sessions export order-17')
    .action(async (given, { tenant }) => {
      const client = await cli.client();
      const { path } = routeOf('exportSession');
      const answer = await client.exportSession({
        params: { workspace_id: await cli.workspaceId(), session_id: await findId(cli, 'session_id', given, path) },
        headers: tenant === undefined ? {} : { 'x-platform-tenant': tenant },
      });
      cli.output.raw(isResponse(answer) ? await answer.text() : `${JSON.stringify(answer)}\n`);
    });
};

export default sessions;
