import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const whoami: Configure = (command, cli) => {
  command.addHelpText('after', '\nExample:\n  $ platform whoami').action(async () => {
    const client = await cli.client();
    const { url, source } = await cli.connection();
    const { user } = await client.getMe({});
    const org = await cli.org();
    cli.output.result(
      {
        user: user.email,
        name: user.display_name,
        workspace: org.slug,
        workspace_id: org.id,
        platform: url,
        key_from: source,
      },
      members,
    );
  });
};

export default whoami;
