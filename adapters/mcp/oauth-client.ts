import type {
  AuthorizationServerMetadata,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  OAuthTokens,
  StoredOAuthClientInformation,
} from '@modelcontextprotocol/client';
import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';
import {
  type BegunSignIn,
  type SignedIn,
  type SignInAnswer,
  type SignInEndpoints,
  type SignInWish,
  type ToolSignIn,
  ToolSignInFailure,
  type ToolTokens,
} from '#core/ports/tool-sign-in.ts';
import { signInFetch } from './sign-in-fetch.ts';

let sdk: typeof import('@modelcontextprotocol/client');

/** Imports the SDK dynamically: the same copy, apart from a function's own code, as that of sessions with servers. */
export async function loadOAuthClient(outbound: OutboundExchanges): Promise<ToolSignIn> {
  sdk = await import('@modelcontextprotocol/client');
  return new OAuthClient(outbound);
}

/** Maximum length of the provider's own text in an error. */
const MAX_WORD = 60;
const MAX_TOKEN = 8000;
const CLIENT_NAME = 'Agent platform';
/** Asks an MCP server, or any other, for its challenge. */
const PROBE = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'agent-platform', version: '1.0.0' },
  },
});

type Client = NonNullable<StoredOAuthClientInformation>;

/** State of an attempt, which is stored between the request of the user and the redirect of the provider. */
interface Attempt {
  readonly redirectUrl: string;
  readonly grant: Grant;
  readonly codeVerifier: string;
  /** Scopes that were asked for. */
  readonly scope: string | null;
}

/** What refreshing and revoking need, beside the tokens. */
interface Grant {
  readonly server: string;
  /** The members that are needed later. */
  readonly metadata: AuthorizationServerMetadata | null;
  readonly client: Client;
  /** Value of the parameter `resource`. */
  readonly resource: string | null;
}

/** Implements {@link ToolSignIn}. Its `auth` follows the rules of MCP's specification for clients. */
class OAuthClient implements ToolSignIn {
  readonly #fetch: ReturnType<typeof signInFetch>;

  constructor(outbound: OutboundExchanges) {
    this.#fetch = signInFetch(outbound);
  }

  async begin(wish: SignInWish): Promise<BegunSignIn> {
    return guarded(async () => {
      const challenge = wish.endpoints ? {} : await this.#challengeOf(wish);
      const state = new FlowState(wish);
      const scope = wish.scopes?.join(' ') || challenge.scope;
      await sdk.auth(state, {
        serverUrl: wish.url,
        scope,
        ...(challenge.resourceMetadataUrl && { resourceMetadataUrl: challenge.resourceMetadataUrl }),
        fetchFn: this.#fetch,
      });
      const { authorizationUrl, discovery, client, verifier: codeVerifier } = state;
      if (!authorizationUrl || !discovery || !client || codeVerifier === undefined) {
        throw new ToolSignInFailure('unfit', 'it named no address for the approval');
      }
      checkMethods(discovery.authorizationServerMetadata, wish);
      checkAddress(authorizationUrl.href, 'authorization endpoint', wish);
      const grant: Grant = {
        server: discovery.authorizationServerUrl,
        metadata: keptOf(discovery.authorizationServerMetadata),
        client,
        resource: authorizationUrl.searchParams.get('resource'),
      };
      const scopeAsked = authorizationUrl.searchParams.get('scope');
      const attempt: Attempt = { redirectUrl: wish.redirectUrl, grant, codeVerifier, scope: scopeAsked };
      return {
        authorizationUrl: authorizationUrl.href,
        issuer: issuerOf(discovery),
        attempt: attempt as unknown as Json,
      };
    });
  }

  async finish(attempt: Json, { code, iss }: SignInAnswer): Promise<SignedIn> {
    return guarded(async () => {
      const { redirectUrl, grant, codeVerifier, scope } = attempt as unknown as Attempt;
      const { server, metadata, client, resource } = grant;
      const tokens = tokensOf(
        await sdk.exchangeAuthorization(server, {
          metadata: metadata ?? undefined,
          clientInformation: client,
          authorizationCode: code,
          codeVerifier,
          redirectUri: redirectUrl,
          ...(iss !== undefined && { iss }),
          ...(resource !== null && { resource }),
          fetchFn: this.#fetch,
        }),
      );
      return {
        tokens: { ...tokens, scopes: tokens.scopes ?? scope?.split(' ') },
        issuer: metadata?.issuer ?? server,
        grant: grant as unknown as Json,
      };
    });
  }

  async refresh(grant: Json, refreshToken: string): Promise<ToolTokens> {
    return guarded(async () => {
      const { server, metadata, client, resource } = grant as unknown as Grant;
      const tokens = await sdk.refreshAuthorization(server, {
        metadata: metadata ?? undefined,
        clientInformation: client,
        refreshToken,
        ...(resource !== null && { resource }),
        fetchFn: this.#fetch,
      });
      return tokensOf(tokens);
    });
  }

  async revoke(grant: Json, { accessToken, refreshToken }: ToolTokens): Promise<boolean> {
    return guarded(async () => {
      const { metadata, client } = grant as unknown as Grant;
      const endpoint = (metadata as { readonly revocation_endpoint?: string } | null)?.revocation_endpoint;
      if (endpoint === undefined) return false;
      const methods = metadata as { readonly revocation_endpoint_auth_methods_supported?: string[] } | null;
      // Ending the refresh token ends the access tokens of its grant at most servers (RFC 7009, section 2.1).
      for (const [hint, token] of [
        ['refresh_token', refreshToken],
        ['access_token', accessToken],
      ] as const) {
        if (token === undefined) continue;
        const { headers, fields } = authenticated(client, methods?.revocation_endpoint_auth_methods_supported);
        const body = new URLSearchParams({ token, token_type_hint: hint, ...fields });
        const { ok, status } = await this.#fetch(endpoint, { method: 'POST', headers, body });
        if (!ok) throw new ToolSignInFailure('unreachable', `it answered ${status} to the revocation`);
      }
      return true;
    });
  }

  async #challengeOf({ url, challenge }: SignInWish) {
    if (challenge !== undefined) {
      return sdk.extractWWWAuthenticateParams(new Response(null, { headers: { 'www-authenticate': challenge } }));
    }
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const answer = await this.#fetch(url, { method: 'POST', headers, body: PROBE, isProbe: true });
    return sdk.extractWWWAuthenticateParams(answer);
  }
}

/** Holds the state of one sign-in for the SDK. */
class FlowState implements OAuthClientProvider {
  readonly #wish: SignInWish;
  authorizationUrl: URL | undefined;
  discovery: OAuthDiscoveryState | undefined;
  client: Client | undefined;
  verifier: string | undefined;
  readonly clientMetadataUrl?: string;

  constructor(wish: SignInWish) {
    this.#wish = wish;
    if (wish.clientMetadataUrl !== undefined) this.clientMetadataUrl = wish.clientMetadataUrl;
    this.discovery = wish.endpoints && discoveryOf(wish.endpoints);
    const { id, secret } = wish.client ?? {};
    const given =
      id === undefined ? undefined : { client_id: id, ...(secret !== undefined && { client_secret: secret }) };
    // A client belongs to one issuer: the SDK discards it if the server names another one by now.
    this.client = given ?? (wish.earlier as unknown as Grant | undefined)?.client;
  }

  get redirectUrl(): string {
    return this.#wish.redirectUrl;
  }

  get clientMetadata(): OAuthClientMetadata {
    return {
      client_name: CLIENT_NAME,
      redirect_uris: [this.#wish.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: this.#wish.client?.secret === undefined ? 'none' : 'client_secret_basic',
    };
  }

  state = (): string => this.#wish.state;
  /** A client that a user gave belongs to the issuer that its server names. */
  clientInformation = ({ issuer }: { issuer?: string } = {}): Client | undefined =>
    this.client && { issuer, ...this.client };
  saveClientInformation = (client: Client): void => {
    this.client = client;
  };
  tokens = (): undefined => undefined;
  saveTokens = (): void => {};
  redirectToAuthorization = (url: URL): void => {
    this.authorizationUrl = url;
  };
  saveCodeVerifier = (verifier: string): void => {
    this.verifier = verifier;
  };
  codeVerifier = (): string => this.verifier!;
  saveDiscoveryState = (state: OAuthDiscoveryState): void => {
    this.discovery = state;
  };
  discoveryState = (): OAuthDiscoveryState | undefined => this.discovery;
}

function discoveryOf({ authorize, token, revoke }: SignInEndpoints): OAuthDiscoveryState {
  const issuer = new URL(authorize).origin;
  return {
    authorizationServerUrl: issuer,
    authorizationServerMetadata: {
      issuer,
      authorization_endpoint: authorize,
      token_endpoint: token,
      ...(revoke !== undefined && { revocation_endpoint: revoke }),
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic', 'none'],
    },
  };
}

/** Members of the metadata of an authorization server that requests after the approval need. */
const KEPT = [
  ...(['issuer', 'authorization_endpoint', 'token_endpoint', 'revocation_endpoint'] as const),
  ...(['token_endpoint_auth_methods_supported', 'revocation_endpoint_auth_methods_supported'] as const),
  ...(['authorization_response_iss_parameter_supported', 'response_types_supported'] as const),
];

function keptOf(metadata: AuthorizationServerMetadata | undefined): AuthorizationServerMetadata | null {
  if (metadata === undefined) return null;
  const given = metadata as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    KEPT.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]),
  ) as never;
}

const issuerOf = ({ authorizationServerMetadata, authorizationServerUrl }: OAuthDiscoveryState): string =>
  authorizationServerMetadata?.issuer ?? authorizationServerUrl;

/** Throws if the server does not say that it knows PKCE with S256, which clients have to check (MCP, authorization). */
function checkMethods(metadata: AuthorizationServerMetadata | undefined, { endpoints }: SignInWish): void {
  if (metadata === undefined || endpoints !== undefined) return;
  if (metadata.code_challenge_methods_supported?.includes('S256')) return;
  throw new ToolSignInFailure('unfit', 'its authorization server does not say that it supports PKCE with S256');
}

/** The user's browser goes there: only web addresses, and plain http only where the server itself has it. */
function checkAddress(text: string, name: string, { url }: SignInWish): void {
  const { protocol } = new URL(text);
  if (protocol === 'https:' || (protocol === 'http:' && url.startsWith('http:'))) return;
  throw new ToolSignInFailure('unfit', `its ${name} is not an https address`);
}

function authenticated(client: Client, methods: readonly string[] = []) {
  const { client_id, client_secret } = client;
  if (client_secret === undefined || sdk.selectClientAuthMethod(client, [...methods]) === 'client_secret_post') {
    return { headers: {}, fields: { client_id, ...(client_secret !== undefined && { client_secret }) } };
  }
  // RFC 6749, section 2.3.1.
  const pair = [client_id, client_secret].map((each) => new URLSearchParams({ each }).toString().slice(5)).join(':');
  return { headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }, fields: {} };
}

function tokensOf({ access_token, refresh_token, expires_in, scope, token_type }: OAuthTokens): ToolTokens {
  if (token_type.toLowerCase() !== 'bearer') {
    throw new ToolSignInFailure('unfit', 'its tokens are not bearer tokens');
  }
  if (!/^[\x21-\x7e]+$/.test(access_token) || access_token.length + (refresh_token?.length ?? 0) > MAX_TOKEN) {
    throw new ToolSignInFailure('unfit', `its tokens are not texts of at most ${MAX_TOKEN} characters`);
  }
  return {
    accessToken: access_token,
    ...(refresh_token !== undefined && { refreshToken: refresh_token }),
    ...(expires_in !== undefined && { expiresIn: expires_in }),
    ...(scope !== undefined && {
      scopes: scope
        .split(' ')
        .filter((each) => each !== '')
        .slice(0, 100),
    }),
  };
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw failureOf(error);
  }
}

/** Messages of the SDK may contain documents and answers of the server, which are not shown. */
function failureOf(error: unknown): ToolSignInFailure {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (hasCode(cause, 'TOOL_SIGN_IN_FAILED')) return cause as ToolSignInFailure;
    if (hasCode(cause, 'OUTBOUND_FAILED')) {
      const { message, isFinal } = cause as OutboundFailure;
      return new ToolSignInFailure(isFinal ? 'unfit' : 'unreachable', message);
    }
  }
  if (sdk.OAuthError.isInstance(error)) {
    const word = String(error.code)
      .replaceAll(/[^\w .-]/g, '')
      .slice(0, MAX_WORD);
    const isOwn =
      error.code === sdk.OAuthErrorCode.ServerError || error.code === sdk.OAuthErrorCode.TemporarilyUnavailable;
    return new ToolSignInFailure(isOwn ? 'unreachable' : 'refused', `it answered ${word}`);
  }
  if (sdk.RegistrationRejectedError.isInstance(error)) {
    return new ToolSignInFailure('unfit', 'it refuses to register the platform: give a client id of it');
  }
  if (sdk.IssuerMismatchError.isInstance(error)) {
    return new ToolSignInFailure('unfit', 'the answer or the metadata is of another issuer than the one asked');
  }
  if (sdk.AuthorizationServerMismatchError.isInstance(error)) {
    return new ToolSignInFailure('unfit', 'its authorization server changed during the sign-in');
  }
  if (sdk.InsecureTokenEndpointError.isInstance(error)) {
    return new ToolSignInFailure('unfit', 'its token endpoint is not an https address');
  }
  const message = error instanceof Error ? error.message : '';
  if (/does not match expected/.test(message)) {
    return new ToolSignInFailure('unfit', 'its metadata is of another resource than the address asked');
  }
  if (/dynamic client registration/i.test(message)) {
    return new ToolSignInFailure('unfit', 'it registers no clients by itself: give a client id of it');
  }
  return new ToolSignInFailure('unfit', 'its metadata or answers are not those of OAuth 2.1');
}
