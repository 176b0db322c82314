import { ownVersions } from '../agent-reference.ts';
import type { Cli, Configure } from '../cli.ts';
import { UsageError } from '../failure.ts';
import { findId } from '../find-id.ts';
import { mayHaveBrowser } from '../open-url.ts';

const KINDS = ['agent', 'run', 'schedule'] as const;
type Kind = (typeof KINDS)[number];

const open: Configure = (command, cli) => {
  command
    .argument('[what]', 'agent, run or schedule')
    .argument('[which]', 'its name or id')
    .addHelpText('after', '\nExamples:\n  $ platform open\n  $ platform open run 0f8c2d11')
    .action(async (what?: string, which?: string) => {
      const { host, output } = cli;
      // Whoever reads the output of a program could sign in with the link.
      if (!host.stdout.isTTY || output.isJson) {
        throw new UsageError('The link signs in whoever has it, so it is shown on a terminal only.');
      }
      const client = await cli.client();
      const body = what === undefined ? {} : await shown(cli, what, which);
      const { url } = await client.createSignInCode({ body });
      output.result({ url }, () => url);
      output.note('It works once, within a minute.');
      if (mayHaveBrowser(host.env)) host.openUrl(url);
    });
};

async function shown(cli: Cli, what: string, which: string | undefined) {
  const show = KINDS.find((kind) => kind === what);
  if (show === undefined || which === undefined) {
    throw new UsageError('Say what to open: agent NAME, run ID or schedule ID.');
  }
  return { show, id: await idOf(cli, show, which) };
}

async function idOf(cli: Cli, kind: Kind, which: string): Promise<string> {
  if (kind === 'agent') return (await ownVersions(cli, which))[0]!.id;
  return findId(cli, `${kind}_id`, which);
}

export default open;
