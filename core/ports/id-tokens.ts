import { lazy } from '#core/base/lazy.ts';

/**
 * Verification of ID tokens (OpenID Connect Core 1.0, section 2) that issuers give to their jobs, such as those of GitHub
 * Actions. All requests to an issuer follow the rules of `core/outbound`.
 */
export interface IdTokenVerifier {
  /**
   * Returns the content of a token that `issuer` signed and that is valid now. Whom it is for, and which job it names, is
   * left to the caller, as is its single use. Throws {@link IdTokenFailure}.
   *
   * @param issuer An https address.
   */
  verify(token: string, issuer: string): Promise<IdToken>;
}

export interface IdToken {
  readonly subject: string;
  readonly audiences: readonly string[];
  /** Unique at its issuer. */
  readonly id: string;
  /** Epoch milliseconds from which on the token is refused. */
  readonly validUntil: number;
  /** All claims. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Longest token that is looked at. GitHub's have 2 KB. */
export const MAX_ID_TOKEN_BYTES = 16 * 1024;

/**
 * Why a token was refused, as a sentence without a full stop. `unfit`: the token is not valid. `unreachable`: the keys of
 * the issuer could not be read. The message has no part of the token.
 */
export class IdTokenFailure extends Error {
  readonly code = 'ID_TOKEN_REFUSED';
  readonly kind: 'unfit' | 'unreachable';

  constructor(kind: IdTokenFailure['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Loads the adapter on use: few requests need it, and its library is large. */
export function lazyIdTokens(load: () => Promise<IdTokenVerifier>): IdTokenVerifier {
  const loaded = lazy(load);
  return { verify: async (token, issuer) => (await loaded()).verify(token, issuer) };
}
