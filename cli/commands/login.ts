import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { readStdin } from '../shared/input.ts';
import { type Callback, waitForCallback } from '../signing-in/callback.ts';
import { clientOf } from '../signing-in/connection.ts';
import { mayHaveBrowser } from '../signing-in/open-url.ts';
import { signIn } from '../signing-in/sign-in.ts';

const login: Configure = (command, cli) => {
  command
    .description('Sign in to a platform in the browser, with a code, or with an API key')
    .option('--no-browser', 'Print a URL to open on any device, and prompt for the code shown there')
    .option('--with-key', 'Read the API key from stdin')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform login\n  $ platform login --url https://agents.example.com --with-key < key.txt',
    )
    .action(async ({ withKey = false, browser }) => {
      const url = await cli.signInUrl();
      const key = withKey || !cli.host.stdin.isTTY ? await keyOfStdin(cli) : await keyOfPerson(cli, url, browser);
      await signIn(cli, key);
    });
};

async function keyOfStdin({ host }: Cli): Promise<string> {
  const key = (await readStdin(host)).trim();
  if (!key.startsWith('sk_')) throw new UsageError('The text on stdin is not an API key: keys begin with sk_live_.');
  return key;
}

/** Gets a key that the user approves on a page of the platform. */
async function keyOfPerson(cli: Cli, url: string, wantsBrowser: boolean): Promise<string> {
  const { host, options, output } = cli;
  const anyone = await clientOf({ url, source: 'login' }, undefined, cli.wire);
  const verifier = randomBytes(32).toString('base64url');
  const asked = {
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    client_name: `platform on ${hostname()}`.slice(0, 80),
    workspace: options.workspace,
  };
  const callback = wantsBrowser && mayHaveBrowser(host.env) ? await waitForCallback() : undefined;
  try {
    const token = await (callback ? tokenOfBrowser(cli, anyone, asked, callback) : tokenOfCode(cli, anyone, asked));
    output.note('Sign-in approved.');
    return (await anyone.cliExchange({ body: { token, code_verifier: verifier } })).api_key;
  } finally {
    callback?.close();
  }
}

type Asked = Parameters<Client['cliInit']>[0]['body'];

async function tokenOfBrowser(
  { host, output }: Cli,
  anyone: Client,
  asked: Asked,
  callback: Callback,
): Promise<string> {
  const body = { ...asked, redirect_port: callback.port };
  const { state, auth_url, expires_at } = await anyone.cliInit({ body });
  output.error(
    `Approve the sign-in in the browser. If it does not open, go to\n  ${auth_url}\nor press Ctrl-C and run \`platform login --no-browser\`.`,
  );
  host.openUrl(auth_url);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new UsageError('The sign-in was not approved in time.', { exitCode: EXIT.timeout })),
    Date.parse(expires_at) - Date.now(),
  );
  const forget = host.onInterrupt(() =>
    late.reject(new UsageError('Sign-in cancelled.', { exitCode: EXIT.interrupted })),
  );
  try {
    return await Promise.race([callback.token(state), late.promise]);
  } finally {
    clearTimeout(timer);
    forget();
  }
}

async function tokenOfCode(cli: Cli, anyone: Client, asked: Asked): Promise<string> {
  if (!cli.isInteractive) {
    throw new UsageError('Cannot prompt for the sign-in code without a terminal.', {
      hint: 'Use `platform login --with-key` to read an API key from stdin.',
    });
  }
  const { auth_url } = await anyone.cliInit({ body: asked });
  cli.output.error(`Open this URL in any browser and approve the sign-in:\n  ${auth_url}`);
  return (await cli.askSecret('Sign-in code')).trim();
}

export default login;
