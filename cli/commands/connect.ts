import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { secretArgument } from '../shared/secret-argument.ts';
import { waitForCallback } from '../signing-in/callback.ts';
import { mayHaveBrowser } from '../signing-in/open-url.ts';

type Asked = Parameters<Client['createConnection']>[0]['body'];

const connect: Configure = (command, cli) => {
  command
    .description('Sign in at an MCP server or an HTTP API, so that agents can use it')
    .argument('<name>', 'Name of the connection, as manifests have it, or the address alone')
    .argument('[url]', 'Address of the server (default: that of the present connection)')
    .option('--mine', 'Only for runs that begin with your own calls')
    .option('--scope <scope...>', 'Scopes to ask for (default: those that the server names)')
    .option('--client-id <id>', 'Client that you have registered at the provider')
    .option('--with-client-secret', 'Read the secret of that client from stdin, or prompt for it')
    .option('--authorize-url <url>', 'Where users approve, of a provider that does not publish it')
    .option('--token-url <url>', 'Where its tokens are')
    .option('--revoke-url <url>', 'Where its tokens are revoked')
    .option('--no-browser', 'Print a URL to open on any device, and prompt for the answer shown there')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform connect github https://api.githubcopilot.com/mcp\n  $ platform connect linear --mine --json',
    )
    .action(async (given, givenUrl, options) => {
      const { name, url } = nameAndUrl(given, givenUrl);
      const body: Asked = {
        name,
        ...(url !== undefined && { url }),
        owner: options.mine ? 'user' : 'workspace',
        ...(options.scope && { scopes: options.scope }),
        ...(options.clientId !== undefined && { client_id: options.clientId }),
        ...(options.withClientSecret && { client_secret: await clientSecret(cli, name) }),
        ...endpointsOf(options),
      };
      const params = { workspace_id: await cli.workspaceId(), connection: name };
      const answer = await (options.browser ? answerOfBrowser(cli, body) : answerOfPerson(cli, body));
      const { connection } = await (await cli.client()).finishConnection({ params, body: { answer } });
      cli.output.result({ connection }, () => `${name} is connected to ${connection.url}.`);
      cli.output.note(
        `Manifests name it as "connection": "${name}" of an MCP server, or as the secret ${connection.secret}.`,
      );
    });
};

/** The name of an address alone is the part of its host that a person would say: `mcp.linear.app` is `linear`. */
function nameAndUrl(given: string, url: string | undefined): { name: string; url: string | undefined } {
  if (url !== undefined || !given.includes('://')) return { name: given, url };
  const labels = URL.parse(given)?.hostname.split('.') ?? [];
  const name = (labels.at(-2) ?? labels[0] ?? '').toLowerCase();
  if (/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) return { name, url: given };
  throw new UsageError('This address has no name to call the connection by.', {
    hint: `Give one: platform connect NAME ${given}`,
  });
}

function endpointsOf(options: {
  readonly authorizeUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  readonly revokeUrl?: string | undefined;
}): Pick<Asked, 'endpoints'> {
  const { authorizeUrl: authorize, tokenUrl: token, revokeUrl: revoke } = options;
  if (authorize === undefined && token === undefined && revoke === undefined) return {};
  if (authorize === undefined || token === undefined) {
    throw new UsageError('--authorize-url and --token-url belong together.');
  }
  return { endpoints: { authorize, token, ...(revoke !== undefined && { revoke }) } };
}

const clientSecret = (cli: Cli, name: string): Promise<string> =>
  secretArgument(cli, {
    given: undefined,
    label: 'Client secret',
    command: `platform connect ${name} --with-client-secret`,
  });

/** Waits on this machine for the browser in which the user approves. */
async function answerOfBrowser(cli: Cli, body: Asked): Promise<string> {
  const { host, output } = cli;
  const callback = await waitForCallback();
  const late = Promise.withResolvers<never>();
  const forget = host.onInterrupt(() =>
    late.reject(new UsageError('Sign-in cancelled.', { exitCode: EXIT.interrupted })),
  );
  let timer: NodeJS.Timeout | undefined;
  try {
    const { authorization_url, expires_at } = await begin(cli, { ...body, redirect_port: callback.port });
    output.error(
      `Approve the connection in the browser. If it does not open, go to\n  ${authorization_url}\nor press Ctrl-C and add --no-browser.`,
    );
    if (mayHaveBrowser(host.env)) host.openUrl(authorization_url);
    timer = setTimeout(
      () => late.reject(new UsageError('The connection was not approved in time.', { exitCode: EXIT.timeout })),
      Date.parse(expires_at) - Date.now(),
    );
    const state = new URL(authorization_url).searchParams.get('state') ?? '';
    return await Promise.race([callback.query(state), late.promise]);
  } finally {
    clearTimeout(timer);
    forget();
    callback.close();
  }
}

async function answerOfPerson(cli: Cli, body: Asked): Promise<string> {
  if (!cli.isInteractive) {
    throw new UsageError('Cannot prompt for the answer without a terminal.', {
      hint: 'Leave out --no-browser: the command then waits for the browser on this machine.',
    });
  }
  const { authorization_url } = await begin(cli, body);
  cli.output.error(`Open this URL in any browser and approve the connection:\n  ${authorization_url}`);
  return (await cli.askSecret('Answer')).trim();
}

const begin = async (cli: Cli, body: Asked) =>
  (await cli.client()).createConnection({ params: { workspace_id: await cli.workspaceId() }, body });

export default connect;
