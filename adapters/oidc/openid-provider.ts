import { hash } from 'node:crypto';
import * as oidc from 'openid-client';
import { hasCode } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';
import {
  type SignInAttempt,
  SignInFailure,
  type SignInIdentity,
  type SignInProvider,
} from '#core/ports/sign-in-provider.ts';
import { type Claims, isVerified } from './verified-email.ts';

export interface OidcSettings {
  /** Issuer identifier; its configuration is at `<issuer>/.well-known/openid-configuration`. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface OidcDeps {
  readonly outbound: OutboundExchanges;
  readonly clock: Pick<Clock, 'now'>;
}

/** Cache time of the configuration: a provider's endpoints may change. */
const KNOWN_MS = 3_600_000;
/** Timeout of one request: a sign-in needs up to four, and API Gateway waits 29 seconds. */
const REQUEST_SECONDS = 6;
const MAX_ANSWER_BYTES = 512 * 1024;
/** Allowed clock skew of the provider. */
const TOLERANCE_SECONDS = 30;
/** Statuses whose `Response` must not have a body. */
const BODYLESS = [204, 205, 304];

/** {@link SignInProvider} implemented with openid-client. The provider's configuration is cached for an hour. */
export class OpenIdProvider implements SignInProvider {
  readonly #settings: OidcSettings;
  readonly #deps: OidcDeps;
  #known: { readonly config: Promise<oidc.Configuration>; readonly until: number } | undefined;

  constructor(settings: OidcSettings, deps: OidcDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  async authorizationUrl({ redirectUrl, state, nonce, verifier }: SignInAttempt): Promise<string> {
    return this.#ask((config) =>
      oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUrl,
        scope: 'openid email profile',
        state,
        nonce,
        code_challenge: hash('sha256', verifier, 'base64url'),
        code_challenge_method: 'S256',
      }),
    ).then(String);
  }

  async identify({ state, nonce, verifier }: SignInAttempt, callbackUrl: string): Promise<SignInIdentity> {
    return this.#ask(async (config) => {
      const tokens = await oidc.authorizationCodeGrant(config, new URL(callbackUrl), {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const { iss: issuer, sub: subject, ...claims } = tokens.claims()!;
      // In the code flow, claims about the person may be available only at the UserInfo endpoint (OpenID Connect Core
      // 1.0, section 5.4).
      const about: Claims =
        claims.email === undefined && config.serverMetadata().userinfo_endpoint !== undefined
          ? await oidc.fetchUserInfo(config, tokens.access_token, subject)
          : claims;
      return {
        issuer,
        subject,
        ...(typeof about.email === 'string' && isVerified(issuer, about) && { verifiedEmail: about.email }),
        ...(typeof about.name === 'string' && { name: about.name }),
      };
    });
  }

  async #ask<T>(work: (config: oidc.Configuration) => T | Promise<T>): Promise<T> {
    try {
      return await work(await this.#configuration());
    } catch (error) {
      throw failureOf(error);
    }
  }

  #configuration(): Promise<oidc.Configuration> {
    const now = this.#deps.clock.now();
    if (this.#known === undefined || this.#known.until <= now) {
      const known = { config: this.#discover(), until: now + KNOWN_MS };
      this.#known = known;
      known.config.catch(() => {
        if (this.#known === known) this.#known = undefined;
      });
    }
    return this.#known.config;
  }

  #discover(): Promise<oidc.Configuration> {
    const { issuer, clientId, clientSecret } = this.#settings;
    const isPlain = issuer.startsWith('http:');
    return oidc.discovery(
      new URL(issuer),
      clientId,
      { [oidc.clockTolerance]: TOLERANCE_SECONDS },
      clientAuthentication(clientSecret),
      {
        timeout: REQUEST_SECONDS,
        [oidc.customFetch]: outboundFetch(this.#deps.outbound),
        execute: [
          // The library would trust TLS to the token endpoint; signatures are verified in addition.
          oidc.enableNonRepudiationChecks,
          // The rules for outbound requests allow plain http only to the operator's own hosts.
          ...(isPlain ? [oidc.allowInsecureRequests] : []),
        ],
      },
    );
  }
}

/** Selects the provider's supported method; HTTP Basic is the default (OpenID Connect Discovery 1.0, section 3). */
function clientAuthentication(secret: string): oidc.ClientAuth {
  const [basic, post] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)];
  return (server, ...rest) => {
    const taken = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    return (taken.includes('client_secret_basic') ? basic : post)(server, ...rest);
  };
}

/** `fetch` that follows the platform's outbound rules and no redirects. */
function outboundFetch(outbound: OutboundExchanges): oidc.CustomFetch {
  return async (url, { method, headers, body, signal }) => {
    const answer = await outbound.exchange({
      method: method as 'GET' | 'POST',
      url,
      headers,
      ...(body !== undefined && body !== null && { body: String(body) }),
      signal: signal ?? AbortSignal.timeout(REQUEST_SECONDS * 1000),
    });
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of answer.body) {
      bytes += piece.byteLength;
      if (bytes > MAX_ANSWER_BYTES)
        throw new SignInFailure('unreachable', `it answered more than ${MAX_ANSWER_BYTES} bytes`);
      pieces.push(piece);
    }
    const { status } = answer;
    return new Response(BODYLESS.includes(status) ? null : Buffer.concat(pieces), { status, headers: answer.headers });
  };
}

/** The library's messages name the mismatch; the received values are in their causes, which are never logged. */
function failureOf(error: unknown): SignInFailure {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (hasCode(cause, 'SIGN_IN_FAILED')) return cause as SignInFailure;
    if (hasCode(cause, 'OUTBOUND_FAILED')) return new SignInFailure('unreachable', (cause as OutboundFailure).message);
  }
  if (error instanceof oidc.AuthorizationResponseError) return new SignInFailure('refused', wordOf(error.error));
  if (error instanceof oidc.ResponseBodyError) return new SignInFailure('unfit', wordOf(error.error));
  const { message, code } = error as { message?: string; code?: string };
  const isSilent = code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT';
  const details = [code, claimOf(error)].filter((part) => part !== undefined).join(': ');
  return new SignInFailure(isSilent ? 'unreachable' : 'unfit', `${message}${details && ` (${details})`}`);
}

/** Returns the name of the mismatched claim. */
function claimOf(error: unknown): string | undefined {
  for (let cause = error; typeof cause === 'object' && cause !== null; cause = (cause as Error).cause) {
    const { claim } = cause as { claim?: unknown };
    if (typeof claim === 'string') return claim;
  }
  return undefined;
}

/** Sanitizes an error code of the provider (RFC 6749, section 4.1.2.1), such as `access_denied`. */
const wordOf = (error: string): string => error.replaceAll(/[^\w .-]/g, '').slice(0, 60);
