import type { Json } from '#core/base/json.ts';

/**
 * OAuth 2.1 as a client, for MCP servers and HTTP APIs that users name: discovery (RFC 9728, RFC 8414, OpenID Connect
 * Discovery), registration, the code flow with PKCE (S256), `iss` (RFC 9207) and `resource` (RFC 8707). All requests
 * follow the rules of `core/outbound`, and no redirects.
 *
 * Methods throw {@link ToolSignInFailure}.
 */
export interface ToolSignIn {
  /** Discovers how to sign in, registers the client unless one is given, and returns where the user approves. */
  begin(wish: SignInWish): Promise<BegunSignIn>;
  /**
   * Exchanges the code of an answer for tokens.
   *
   * @param attempt {@link BegunSignIn.attempt}
   */
  finish(attempt: Json, answer: SignInAnswer): Promise<SignedIn>;
  /** Exchanges the refresh token, which the provider may replace. */
  refresh(grant: Json, refreshToken: string): Promise<ToolTokens>;
  /** Revokes tokens (RFC 7009). Returns false if the provider has no address for it. */
  revoke(grant: Json, tokens: ToolTokens): Promise<boolean>;
}

export interface SignInWish {
  /** Address of the MCP server or API. */
  readonly url: string;
  /** Address of ours that the provider redirects the browser to. */
  readonly redirectUrl: string;
  readonly state: string;
  /** Where our client metadata document is. @default - the provider could not read it */
  readonly clientMetadataUrl?: string | undefined;
  /** Registered client. @default - by the metadata document or, if the server offers only that, by registration */
  readonly client?: { readonly id: string; readonly secret?: string | undefined } | undefined;
  /** Grant of an earlier sign-in at the same address, whose registered client is used again. */
  readonly earlier?: Json | undefined;
  /** Scopes. @default - those that the server names */
  readonly scopes?: readonly string[] | undefined;
  /** Endpoints of a provider without discovery. */
  readonly endpoints?: SignInEndpoints | undefined;
  /** Header `WWW-Authenticate` of a refused request. @default - the server is asked for one */
  readonly challenge?: string | undefined;
}

export interface SignInEndpoints {
  readonly authorize: string;
  readonly token: string;
  readonly revoke?: string | undefined;
}

export interface BegunSignIn {
  readonly authorizationUrl: string;
  readonly issuer: string;
  /** Secret state of the attempt. */
  readonly attempt: Json;
}

/** Query of the redirect. */
export interface SignInAnswer {
  readonly code: string;
  readonly iss?: string | undefined;
}

export interface ToolTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** Seconds. @default - the provider did not say */
  readonly expiresIn?: number | undefined;
  /** @default - the provider did not say */
  readonly scopes?: readonly string[] | undefined;
}

export interface SignedIn {
  readonly tokens: ToolTokens;
  readonly issuer: string;
  /** Secret client and addresses with which the tokens are refreshed and revoked. */
  readonly grant: Json;
}

/**
 * Why a sign-in or a refresh failed, as a predicate that follows the name of the server. `refused`: the provider says
 * no, for good. `unfit`: its documents or answers are wrong. `unreachable`: a later attempt may succeed.
 */
export class ToolSignInFailure extends Error {
  readonly code = 'TOOL_SIGN_IN_FAILED';
  readonly kind: 'refused' | 'unfit' | 'unreachable';

  constructor(kind: ToolSignInFailure['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}
