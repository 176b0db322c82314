import type { Configure } from '../cli.ts';
import { clientOf } from '../connection.ts';
import { UsageError } from '../failure.ts';
import { readStdin } from '../input.ts';
import { saveProfile } from '../profiles.ts';

const login: Configure = (command, cli) => {
  command
    .option('--with-key', 'read the API key from stdin')
    .addHelpText('after', '\nExample:\n  $ platform login --url https://agents.example.com --with-key < key.txt')
    .action(async ({ withKey = false }: { withKey?: boolean }) => {
      const { host, options } = cli;
      const { url } = await cli.connection();
      const given = withKey || !host.stdin.isTTY ? await readStdin(host) : await cli.askSecret(`API key of ${url}`);
      const key = given.trim();
      if (!key.startsWith('sk_')) throw new UsageError('That is no API key: it begins with sk_live_.');
      const client = await clientOf({ url, key, source: 'login' }, undefined, { fetch: host.fetch });
      const [org, { user }] = [await client.getOrg({}), await client.getMe({})];
      const name = options.profile ?? nameOf(url);
      await saveProfile(host.configFolder, name, { url, key, workspaceId: options.workspace });
      const signedIn = { profile: name, url, workspace: org.slug, user: user.email };
      cli.output.result(
        signedIn,
        () => `Signed in to ${url} as ${user.email}, workspace ${org.slug} (profile ${name}).`,
      );
    });
};

/** `local` for this machine, else the host's name. */
const nameOf = (url: string): string => {
  const { hostname } = new URL(url);
  return ['127.0.0.1', 'localhost', '[::1]'].includes(hostname) ? 'local' : hostname;
};

export default login;
