import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { BegunSignIn, SignedIn, SignInEndpoints, ToolSignInFailure } from '#core/ports/tool-sign-in.ts';
import { consumeToken, newSecret, readToken } from '../sign-in/one-time-tokens.ts';
import {
  type Connection,
  type ConnectionPlace,
  findConnection,
  listConnections,
  openSecrets,
  putConnection,
} from './store.ts';

export type ConnectDeps = Pick<Deps, 'main' | 'counters' | 'vault' | 'clock' | 'ids' | 'config' | 'log' | 'toolSignIn'>;

/** Time between the beginning of a sign-in and its end. */
const LIFE_MS = 10 * 60_000;
const MAX_CONNECTIONS = 200;
/** The documents of a provider are stored with the attempt. */
const MAX_ATTEMPT_BYTES = 200 * 1024;
export const CALLBACK_PATH = '/connections/callback';
export const CLIENT_PATH = '/connections/client.json';

/** Where the browser goes after the approval: to the program that began, to the dashboard, or it stays. */
export interface ReturnTo {
  readonly redirectPort?: number | undefined;
  /** Slug of the workspace whose settings the dashboard shows. */
  readonly dashboardOf?: string | undefined;
}

export interface ConnectWish extends ConnectionPlace, ReturnTo {
  /** Id of the user who asks. Only this user can finish the sign-in. */
  readonly userId: string;
  /** @default - that of the present connection */
  readonly url?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly client?: { readonly id: string; readonly secret?: string | undefined } | undefined;
  readonly endpoints?: SignInEndpoints | undefined;
  /** Header `WWW-Authenticate` with which the server refused a request. @default - the server is asked */
  readonly challenge?: string | undefined;
}

/**
 * Begins a sign-in. Counters table: `CONNECTSTATE#<hash of the state> / META`, with the sealed attempt. Throws
 * INVALID_INPUT, and UNPROCESSABLE if the server offers no sign-in that the platform knows.
 */
export async function beginConnection(
  deps: ConnectDeps,
  wish: ConnectWish,
): Promise<{ readonly authorizationUrl: string; readonly expires: number }> {
  const { workspaceId, name, owner, userId, redirectPort, dashboardOf } = wish;
  const { baseUrl } = deps.config;
  if (baseUrl === undefined) {
    throw new PlatformError('UNPROCESSABLE', 'Providers cannot redirect to this platform: it has no address.', {
      hint: 'Set PLATFORM_BASE_URL.',
    });
  }
  const present = await findConnection(deps, wish);
  if (present === undefined) await refuseTooMany(deps, workspaceId);
  const url = wish.url ?? present?.url;
  if (url === undefined)
    throw new PlatformError('INVALID_INPUT', `url: is required, as there is no connection "${name}" yet.`);
  checkAddresses(deps, url, wish.endpoints);
  const redirectUrl = `${baseUrl}${CALLBACK_PATH}`;
  const { secret: state, expires, operation } = newSecret(deps, 'CONNECTSTATE', {}, LIFE_MS);
  const begun = await asked(url, 'cannot begin', async () =>
    deps.toolSignIn.begin({
      ...{ url, redirectUrl, state, scopes: wish.scopes, client: wish.client, challenge: wish.challenge },
      endpoints: wish.endpoints,
      ...(redirectUrl.startsWith('https:') && { clientMetadataUrl: `${baseUrl}${CLIENT_PATH}` }),
      ...(present?.url === url && !wish.client && { earlier: (await openSecrets(deps, present)).grant }),
    }),
  );
  const item = {
    ...operation.item,
    ...{ workspace_id: workspaceId, user_id: userId, name, owner, url, issuer: begun.issuer },
    ...(redirectPort !== undefined && { redirect_port: redirectPort }),
    ...(dashboardOf !== undefined && { dashboard_of: dashboardOf }),
    ...(await sealedAttempt(deps, { workspaceId, state, begun, url })),
    ttl: epochSeconds(expires),
  };
  await deps.counters.transact([{ ...operation, item }]);
  return { authorizationUrl: begun.authorizationUrl, expires };
}

async function refuseTooMany(deps: Pick<Deps, 'main'>, workspaceId: string): Promise<void> {
  if ((await listConnections(deps, workspaceId)).length < MAX_CONNECTIONS) return;
  throw new PlatformError(
    'CONFLICT',
    `The workspace has ${MAX_CONNECTIONS} connections, which is the maximum: delete some first.`,
  );
}

function checkAddresses({ config }: Pick<Deps, 'config'>, url: string, endpoints: SignInEndpoints | undefined): void {
  const problem = toolServerUrlProblem(config, url);
  if (problem !== undefined) throw new PlatformError('INVALID_INPUT', `url: ${problem}.`);
  for (const [name, address] of Object.entries(endpoints ?? {})) {
    if (address !== undefined)
      checkOutboundUrl(address, config.outboundHosts, `endpoints.${name}`, 'https://example.com/oauth/token');
  }
}

async function sealedAttempt(
  { vault }: Pick<Deps, 'vault'>,
  { workspaceId, state, begun, url }: { workspaceId: string; state: string; begun: BegunSignIn; url: string },
) {
  const text = Buffer.from(JSON.stringify(begun.attempt));
  if (text.byteLength > MAX_ATTEMPT_BYTES) {
    throw new PlatformError('UNPROCESSABLE', `The documents of ${hostIn(url)} about its sign-in are too large.`);
  }
  const { key, sealed: sealed_key } = await vault.newDataKey(workspaceId);
  return { sealed_key, data: sealBytes(key, `${workspaceId}/connect/${state}`, text).toString('base64') };
}

/** Returns where the browser of a sign-in that is under way goes; `undefined` if it was finished or has expired. */
export async function returnOf(deps: Pick<Deps, 'counters'>, state: string): Promise<ReturnTo | undefined> {
  const content = await readToken(deps, 'CONNECTSTATE', state);
  if (content === undefined) return undefined;
  const { redirect_port, dashboard_of } = content;
  return {
    redirectPort: redirect_port as number | undefined,
    dashboardOf: dashboard_of as string | undefined,
  };
}

/**
 * Finishes a sign-in with the query of the provider's redirect, which works once. Throws INVALID_INPUT unless this user
 * began it for this connection, and UNPROCESSABLE if the provider refused.
 *
 * The user who began sends the query, not the browser that was redirected: so nobody can be led to approve a connection
 * that somebody else began.
 */
export async function finishConnection(
  deps: ConnectDeps,
  { workspaceId, userId, name }: { workspaceId: string; userId: string; name: string },
  query: string,
): Promise<Connection> {
  const answer = new URLSearchParams(query);
  const state = answer.get('state') ?? '';
  const known = await readToken(deps, 'CONNECTSTATE', state);
  const isOwn = known?.workspace_id === workspaceId && known.user_id === userId && known.name === name;
  const content = isOwn ? await consumeToken(deps, 'CONNECTSTATE', state) : undefined;
  if (content === undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      'answer: This sign-in was not begun by you for this connection, is finished already, or has expired.',
      { hint: `Begin again, for example with: platform connect ${name}` },
    );
  }
  const { url, issuer, owner } = content as Record<'url' | 'issuer' | 'owner', string>;
  const code = codeOf(answer, { url, issuer });
  const opened = await deps.vault.openDataKey(workspaceId, content.sealed_key as string);
  const text = openBytes(opened, `${workspaceId}/connect/${state}`, Buffer.from(content.data as string, 'base64'));
  const iss = answer.get('iss') ?? undefined;
  const signedIn: SignedIn = await asked(url, 'has failed', () =>
    deps.toolSignIn.finish(JSON.parse(text.toString()), { code, iss }),
  );
  return putConnection(deps, { workspaceId, name, owner, url, connectedBy: userId }, signedIn);
}

/** Returns the code. Errors of another issuer are not shown (RFC 9207, section 2.4). */
function codeOf(answer: URLSearchParams, { url, issuer }: { url: string; issuer: string }): string {
  const code = answer.get('code');
  if (code !== null && code !== '') return code;
  const iss = answer.get('iss');
  const isForeign = iss !== null && iss !== issuer;
  const word = isForeign ? '' : (answer.get('error') ?? '').replaceAll(/[^\w .-]/g, '').slice(0, 60);
  throw new PlatformError(
    'UNPROCESSABLE',
    `${hostIn(url)} was not connected: ${word === '' ? 'its answer has no code' : `it answered ${word}`}.`,
  );
}

const hostIn = (url: string): string => URL.parse(url)?.host ?? 'the server';

/** Throws UNPROCESSABLE for failures of the provider. */
async function asked<T>(url: string, what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, 'TOOL_SIGN_IN_FAILED')) throw error;
    const { message } = error as ToolSignInFailure;
    throw new PlatformError('UNPROCESSABLE', `The sign-in at ${hostIn(url)} ${what}: ${message}.`, {
      hint: 'The docs say what a server must offer, and what to give for one that offers less: docs/connections.md.',
    });
  }
}
