import { escaped, inWords, page, problemLine } from '#core/http/html-page.ts';
import type { CliRequest } from './cli-requests.ts';

/** HTML pages for signing in, which need no script. */

/** Link to an external sign-in provider. */
export interface ProviderLink {
  /** Host of the provider. */
  readonly name: string;
  /** Path of the route that begins it. */
  readonly start: string;
}

const providerLine = (provider: ProviderLink | undefined): string =>
  provider === undefined
    ? ''
    : `<p><a class="button" href="${escaped(provider.start)}">Continue with ${escaped(provider.name)}</a></p>\n`;

export interface SignInPage {
  /** Path of the route that accepts the form; the script is beside it. */
  readonly action: string;
  readonly provider?: ProviderLink;
  readonly problem?: string;
}

export const signInPage = ({ action, provider, problem }: SignInPage): Uint8Array =>
  page(
    'Sign in',
    `${problemLine(problem)}${providerLine(provider)}<form method="post" action="${escaped(action)}" id="sign-in">
<label for="credential">API key or one-time code</label>
<input id="credential" name="credential" type="password" autocomplete="off" spellcheck="false" required autofocus>
<div class="row"><button class="main">Sign in</button></div>
</form>
<p class="soft"><code>platform open</code> prints a link that signs this browser in.</p>`,
    `<script src="${escaped(action)}.js" defer></script>\n`,
  );

/**
 * Copies the code of a link into the form and submits it. The code is removed from the address first, so that no
 * history contains it.
 */
export const SIGN_IN_SCRIPT = `'use strict';
const code = new URLSearchParams(location.hash.slice(1)).get('code');
const form = document.getElementById('sign-in');
if (code && form) {
  history.replaceState(null, '', location.pathname);
  form.elements.credential.value = code;
  form.submit();
}
`;

export const signedInPage = (email: string, expiresAt: string): Uint8Array =>
  page(
    'You are signed in',
    `<dl><dt>As</dt><dd>${escaped(email)}</dd><dt>Until</dt><dd><time datetime="${expiresAt}">${inWords(expiresAt)}</time>, or 12 hours without use</dd></dl>
<p class="soft">You can close this page. <code>platform keys sessions</code> lists the browsers that are signed in, and ends them.</p>`,
  );

/**
 * Page that forwards automatically. A redirect would not work: the request came from another site, so the browser would
 * withhold the new cookie.
 *
 * @param url Path of the platform.
 */
export const goOnPage = (url: string): Uint8Array =>
  page(
    'You are signed in',
    `<p><a href="${escaped(url)}">Continue</a> if you are not redirected.</p>`,
    `<meta http-equiv="refresh" content="0; url=${escaped(url)}">\n`,
  );

export interface JoinedPage {
  readonly provider: string;
  readonly email: string;
  /** When the account was created. */
  readonly createdAt: string;
  readonly keys: readonly { readonly name: string; readonly prefix: string; readonly lastUsedAt: string | null }[];
  /** Path of the platform to continue to. */
  readonly url: string;
}

/** Warns users whose account was created by others: holders of its keys can act as the user. */
export const joinedPage = ({ provider, email, createdAt, keys, url }: JoinedPage): Uint8Array =>
  page(
    'You are signed in',
    `<p>${escaped(provider)} now opens the account of ${escaped(email)}, which was created on <time datetime="${createdAt}">${inWords(createdAt)}</time>.</p>
<p class="warn">It has ${keys.length === 1 ? 'an API key' : `${keys.length} API keys`} from before. Who has one can act as you: revoke what is not yours.</p>
<dl>${keys.map(({ name, prefix, lastUsedAt }) => `<dt><code>${escaped(prefix)}…</code></dt><dd>${escaped(name)}, ${lastUsedAt === null ? 'never used' : `last used on ${inWords(lastUsedAt)}`}</dd>`).join('')}</dl>
<p><a class="button" href="${escaped(url)}">Go on</a></p>`,
  );

export interface CliPage {
  readonly action: string;
  readonly state: string;
  readonly request: CliRequest;
  /** Address of the browser. */
  readonly address?: string;
  /** Where users who are not signed in can sign in and return to this page. */
  readonly provider?: ProviderLink;
  /** User who is signed in, and the token that binds the form to this page. @default - not signed in */
  readonly session?: { readonly email: string; readonly formToken: string };
  readonly problem?: string;
}

export function cliPage({ action, state, request, address, provider, session, problem }: CliPage): Uint8Array {
  const { clientName, workspace, createdAt, address: from } = request;
  const isElsewhere = from !== undefined && address !== undefined && from !== address;
  const rows = [
    ['Asks', `${escaped(clientName ?? 'A command line')} <span class="soft">(unverified)</span>`],
    ['From', `${escaped(from ?? 'an unknown address')}, <time datetime="${createdAt}">${inWords(createdAt)}</time>`],
    ['For', workspace === undefined ? 'all workspaces of your key' : `the workspace ${escaped(workspace)} only`],
    ['Gets', 'an API key of yours, with the rights of the key used here'],
  ].map(([term, text]) => `<dt>${term}</dt><dd>${text}</dd>`);
  const proof =
    session === undefined
      ? `<label for="api_key">Your API key</label>
<input id="api_key" name="api_key" type="password" autocomplete="off" spellcheck="false" required>`
      : `<p>You are signed in as <strong>${escaped(session.email)}</strong>.</p>
<input type="hidden" name="form_token" value="${escaped(session.formToken)}">`;
  return page(
    'Sign a command line in?',
    `${problemLine(problem)}<p>Agree only if you started this yourself, just now.</p>
<dl>${rows.join('')}</dl>
${session === undefined ? providerLine(provider) : ''}${isElsewhere ? `<p class="warn">The request came from a different address than yours, ${escaped(address)}. Is it your machine?</p>` : ''}
<form method="post" action="${escaped(action)}">
<input type="hidden" name="state" value="${escaped(state)}">
${proof}
<div class="row"><button class="main" name="answer" value="agree">Sign in</button><button name="answer" value="refuse" formnovalidate>Refuse</button></div>
</form>`,
  );
}

/** @param url Address on which the command line listens. */
export const backToCliPage = (agreed: boolean, url: string): Uint8Array =>
  page(
    agreed ? 'Agreed' : 'Refused',
    `<p>${agreed ? 'Go back to the terminal.' : 'Nothing was signed in.'} <a href="${escaped(url)}">Continue</a> if you are not redirected.</p>`,
    `<meta http-equiv="refresh" content="0; url=${escaped(url)}">\n`,
  );

export const tokenPage = (token: string): Uint8Array =>
  page(
    'Agreed',
    `<p>Copy this into the terminal. It works once, within ten minutes.</p><code class="token" tabindex="0">${escaped(token)}</code>
<p class="warn">Give it to nobody: who has it can sign in as you.</p>`,
  );

export const refusedPage = (): Uint8Array => page('Refused', '<p>Nothing was signed in. You can close this page.</p>');
