import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { ownVersions } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { findId } from '../shared/find-id.ts';
import { mayHaveBrowser } from '../signing-in/open-url.ts';

const KINDS = ['agent', 'run', 'schedule'] as const;
type Kind = (typeof KINDS)[number];

const open: Configure = (command, cli) => {
  command
    .argument('[what]', 'agent, run or schedule')
    .argument('[which]', 'its name or id')
    .addHelpText('after', '\nExamples:\n  $ platform open\n  $ platform open run 0f8c2d11')
    .action(async (what, which) => {
      requireTerminal(cli);
      await openPage(cli, what === undefined ? {} : await shown(cli, what, which));
    });
};

/** Signs the browser in on a page. Throws UsageError where there is no terminal. */
export async function openPage(cli: Cli, body: Parameters<Client['createSignInCode']>[0]['body']): Promise<void> {
  requireTerminal(cli);
  const { url } = await (await cli.client()).createSignInCode({ body });
  cli.output.result({ url }, () => url);
  cli.output.note('It works once, within a minute.');
  if (mayHaveBrowser(cli.host.env)) cli.host.openUrl(url);
}

/** Whoever reads the output of a program could sign in with the link. */
function requireTerminal({ host, output }: Cli): void {
  if (!host.stdout.isTTY || output.isJson) {
    throw new UsageError('The link signs in whoever has it, so it is shown on a terminal only.');
  }
}

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
