import { UsageError } from '#client/usage-error.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { readSecret } from '../shared/input.ts';
import { members } from '../shared/output.ts';
import { clientOf } from '../signing-in/connection.ts';
import { signIn } from '../signing-in/sign-in.ts';

const invite: Configure = (command, cli) => {
  command.addHelpText(
    'after',
    '\nThe invitation link is read from stdin, or prompted for on a terminal. Keep it private: anyone with it can join.',
  );
  command
    .command('info')
    .description('Show an invitation')
    .addHelpText('after', '\nExample:\n  $ platform invite info < link.txt')
    .action(async () => {
      const token = await tokenOf(cli, (await cli.connection()).url);
      const { invite: shown } = await (await cli.anyone()).getInvite({ params: { token } });
      cli.output.result(shown, ({ workspace, ...rest }) => members({ workspace: workspace.slug, ...rest }));
    });
  command
    .command('accept')
    .description('Accept an invitation and join its workspace')
    .addHelpText('after', '\nExample:\n  $ platform invite accept < link.txt')
    .action(async () => {
      const client = await cli.client();
      const token = await tokenOf(cli, (await cli.connection()).url);
      const { workspace } = await client.acceptInvite({ params: { token } });
      cli.output.result(workspace, ({ slug }) => `You joined ${slug}. Add \`--workspace ${slug}\` to use it.`);
    });
  command
    .command('join')
    .description('Accept an invitation as a new user, and sign in')
    .option('--name <text>', 'Your display name')
    .addHelpText('after', '\nExample:\n  $ platform invite join --name Ada --profile work < link.txt')
    .action(async ({ name }) => {
      const url = await cli.signInUrl();
      const params = { token: await tokenOf(cli, url) };
      const anyone = await clientOf({ url, source: 'sign-in' }, undefined, cli.wire);
      const joined = await anyone.joinByInvite({ params, body: { name } });
      await signIn(cli, joined.api_key, { workspaceId: joined.workspace.id, keepsOthers: true });
    });
};

/** Returns the token of a link, or the token itself. Throws UsageError for a link of another platform. */
async function tokenOf(cli: Cli, url: string): Promise<string> {
  const message = 'Invitation link';
  const given = (await readSecret(cli, message)).trim();
  const link = /^(.*?)(?:\/dashboard)?\/invites\/([^/?#]+)$/.exec(given);
  const token = link?.[2] ?? given;
  if (!/^[\w-]+$/.test(token)) throw new UsageError('The text on stdin is not an invitation link.');
  if (link && link[1] !== url) {
    throw new UsageError(`The invitation is for ${link[1]}, but the CLI is connected to ${url}.`, {
      hint: `Use --url ${link[1]}.`,
    });
  }
  return token;
}

export default invite;
