/**
 * An identity provider of the operator: OpenID Connect Core 1.0, code flow with PKCE (RFC 7636, S256). All
 * requests to it follow the rules of `core/outbound`.
 */
export interface SignInProvider {
  /** Returns the address where the user signs in. Throws {@link SignInFailure}. */
  authorizationUrl(attempt: SignInAttempt): Promise<string>;
  /**
   * Returns the identity of the user: exchanges the code, and checks signature, issuer, audience, times and nonce of
   * the ID token. `callbackUrl` is the address to which the provider redirected the browser, with its query.
   *
   * Throws {@link SignInFailure}.
   */
  identify(attempt: SignInAttempt, callbackUrl: string): Promise<SignInIdentity>;
}

/** State of one sign-in attempt. */
export interface SignInAttempt {
  readonly redirectUrl: string;
  readonly state: string;
  readonly nonce: string;
  /** The platform's secret of this attempt: a stolen code cannot be exchanged without it. */
  readonly verifier: string;
}

export interface SignInIdentity {
  /** Together with `subject`, the permanent id of a person (OpenID Connect Core 1.0, section 5.7). */
  readonly issuer: string;
  readonly subject: string;
  /** An address that the provider has verified. @default - none, or the provider does not say */
  readonly verifiedEmail?: string;
  readonly name?: string;
}

/**
 * Why a sign-in failed. `refused`: the provider or the user declined. `unfit`: the answer does not belong to the
 * attempt, or is not the provider's. `unreachable`: the provider did not answer. The message is for the log, and
 * contains no codes or tokens.
 */
export class SignInFailure extends Error {
  readonly code = 'SIGN_IN_FAILED';
  readonly kind: 'refused' | 'unfit' | 'unreachable';

  constructor(kind: SignInFailure['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Loads the adapter on use: few requests need it, and its library is large. */
export const lazySignInProvider = (load: () => Promise<SignInProvider>): SignInProvider => ({
  authorizationUrl: async (attempt) => (await load()).authorizationUrl(attempt),
  identify: async (attempt, callbackUrl) => (await load()).identify(attempt, callbackUrl),
});
