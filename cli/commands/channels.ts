import { isChannelName } from '#core/manifest/channel-name.ts';
import { anyVersion, readReference } from '../shared/agent-reference.ts';
import { namedChannel, versionsText } from '../shared/channels.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const timeOf = (time: string): string => time.slice(0, 16).replace('T', ' ');

const channels: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent, or agent@channel for the history of one channel')
    .addHelpText('after', '\nExamples:\n  $ platform channels hello\n  $ platform channels hello@prod')
    .action(async (text) => {
      const client = await cli.client();
      const { version } = await readReference(cli, text);
      if (isChannelName(version)) {
        const { params } = await namedChannel(cli, text);
        cli.output.result(await client.getChannel({ params }), ({ history }) => {
          const rows = history.map(({ at, action, to, by, by_name, why }) => [
            timeOf(at),
            action.replace('_', ' '),
            to === null ? '-' : versionsText(to),
            by === null ? 'the platform' : (by_name ?? by),
            why ?? '',
          ]);
          return table(['time (UTC)', 'change', 'names', 'by', 'why'], rows, cli.output.width);
        });
        return;
      }
      const { id } = await anyVersion(cli, text);
      cli.output.result(await client.listChannels({ params: { id } }), ({ channels: all }) => {
        if (all.length === 0) cli.output.note(`It has no channels. Make one with \`platform promote ${text}@prod\`.`);
        const rows = all.map(({ name, version: named, canary, updated_at }) => [
          name,
          named,
          canary === null ? '-' : `${canary.percent} % on ${canary.version}${canary.taken_back ? ', taken back' : ''}`,
          timeOf(updated_at),
        ]);
        return table(['channel', 'version', 'canary', 'changed (UTC)'], rows, cli.output.width);
      });
    });
};

export default channels;
