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
    .argument('[what]', 'What to open: agent, run or schedule (default: the dashboard)')
    .argument('[which]', 'Its name or ID')
    .addHelpText('after', '\nExamples:\n  $ platform open\n  $ platform open run 0f8c2d11')
    .action(async (what, which) => {
      requireTerminal(cli);
      await openPage(cli, what === undefined ? {} : await shown(cli, what, which));
    });
};

/** Signs the browser in and opens a page. Throws UsageError without a terminal. */
export async function openPage(cli: Cli, body: Parameters<Client['createSignInCode']>[0]['body']): Promise<void> {
  requireTerminal(cli);
  const { url } = await (await cli.client()).createSignInCode({ body });
  cli.output.result({ url }, () => url);
  cli.output.note('The link works once and expires in a minute.');
  if (mayHaveBrowser(cli.host.env)) cli.host.openUrl(url);
}

/** Throws UsageError without a terminal, because anyone who reads the output could sign in with the link. */
function requireTerminal({ host, output }: Cli): void {
  if (!host.stdout.isTTY || output.isJson) {
    throw new UsageError('This command requires a terminal: the link it prints signs in anyone who has it.', {
      hint: 'Run it in a terminal without --json. Scripts can use an API key instead: `platform keys create NAME`.',
    });
  }
}

async function shown(cli: Cli, what: string, which: string | undefined) {
  const show = KINDS.find((kind) => kind === what);
  if (show === undefined || which === undefined) {
    throw new UsageError('Specify what to open: agent NAME, run ID or schedule ID.');
  }
  return { show, id: await idOf(cli, show, which) };
}

async function idOf(cli: Cli, kind: Kind, which: string): Promise<string> {
  if (kind === 'agent') return (await ownVersions(cli, which))[0]!.id;
  return findId(cli, `${kind}_id`, which);
}

export default open;
