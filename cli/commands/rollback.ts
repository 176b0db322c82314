import { namedChannel, versionsText } from '../shared/channels.ts';
import type { Configure } from '../shared/cli.ts';

const rollback: Configure = (command, cli) => {
  command
    .argument('<agent@channel>', 'Channel, such as hello@prod')
    .option('--why <text>', 'Reason, for the history')
    .addHelpText('after', '\nExample:\n  $ platform rollback hello@prod --why "answers in the wrong language"')
    .action(async (text, { why }) => {
      const { params } = await namedChannel(cli, text);
      const client = await cli.client();
      const channel = await client.rollBackChannel({ params, body: why === undefined ? {} : { why } });
      cli.output.result(channel, (after) => `${after.reference} names ${versionsText(after)}.`);
    });
};

export default rollback;
