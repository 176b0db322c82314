import { UsageError } from '#client/usage-error.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';

const chat: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .option('--session <id>', 'ID of a session, or a name of your own; the same name finds the same session')
    .option('--new', 'Begin a new session; without it, a terminal continues your last one')
    .option('--tenant <id>', 'Your customer, to whom the session belongs')
    .addHelpText(
      'after',
      `
Each line is a message; a backslash at its end continues it in the next line. Messages may come from a pipe: each
answer is then a line of JSON, unless stdout is a terminal. /help lists the commands of a chat.

Examples:
  $ platform chat hello
  $ platform chat main/hello --session order-17`,
    )
    .action(async (given, { session, new: isNew = false, tenant }) => {
      if (session !== undefined && isNew) throw new UsageError('--new begins a session, and --session continues one.');
      const agent = await readReference(cli, given);
      const { Chat } = await import('../chat/chat.ts');
      await Chat.hold(cli, agent, { session, isNew, tenant });
    });
};

export default chat;
