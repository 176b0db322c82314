/**
 * A provider of the operator's that says who somebody is: OpenID Connect Core 1.0, code flow with PKCE (RFC 7636, S256). All
 * requests to it follow the rules of `core/outbound`.
 */
export interface SignInProvider {
  /** Where the person goes to sign in. Throws {@link SignInFailure}. */
  authorizationUrl(attempt: SignInAttempt): Promise<string>;
  /**
   * Who came back: exchanges the code, and checks signature, issuer, audience, times and nonce of the ID token. `callbackUrl` is
   * the address that the browser was sent to, with its query.
   *
   * Throws {@link SignInFailure}.
   */
  identify(attempt: SignInAttempt, callbackUrl: string): Promise<SignInIdentity>;
}

/** What one sign-in was begun with. */
export interface SignInAttempt {
  readonly redirectUrl: string;
  readonly state: string;
  readonly nonce: string;
  /** The platform's secret of this attempt: who only has the code cannot exchange it. */
  readonly verifier: string;
}

export interface SignInIdentity {
  /** With `subject` the name of a person for ever (OpenID Connect Core 1.0, section 5.7). */
  readonly issuer: string;
  readonly subject: string;
  /** An address that the provider has verified. @default - it has none, or does not say so */
  readonly verifiedEmail?: string;
  readonly name?: string;
}

/**
 * Why a sign-in failed. `refused`: the provider or the person said no. `unfit`: the answer does not belong to the attempt, or is
 * not the provider's. `unreachable`: the provider gave none. The message is for the log, and holds neither codes nor tokens.
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
