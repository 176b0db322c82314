import { createLocalJWKSet, decodeProtectedHeader, type JWTPayload, jwtVerify } from 'jose';
import { hasCode } from '#core/base/errors.ts';
import { type IdToken, IdTokenFailure, type IdTokenVerifier, MAX_ID_TOKEN_BYTES } from '#core/ports/id-tokens.ts';
import type { OutboundFailure } from '#core/ports/outbound.ts';
import type { OidcDeps } from './openid-provider.ts';

/** Algorithms with a public key that issuers of CI systems use. Neither `none` nor one with a shared secret belongs here. */
const ALGORITHMS = ['RS256', 'ES256'];
/** Longest time that a withdrawn key of an issuer still counts. */
const KEPT_MS = 10 * 60_000;
/** Shortest time between two reads of an issuer's keys because of an unknown key: anybody can name one. */
const COOLDOWN_MS = 60_000;
const MAX_ISSUERS = 100;
/** Limits of one request: there are two, and API Gateway waits 29 seconds. */
const TIMEOUT_MS = 6_000;
const MAX_ANSWER_BYTES = 256 * 1024;
const CLOCK_SKEW_SECONDS = 60;
/** A job gets its token when it starts or asks for it; a token that is older was kept somewhere. */
const MAX_AGE_SECONDS = 15 * 60;
const MAX_ID = 500;

type Keys = ReturnType<typeof createLocalJWKSet>;
interface Known {
  readonly keys: Promise<Keys>;
  /** Epoch milliseconds at which they were asked for. */
  readonly at: number;
}

/** {@link IdTokenVerifier} implemented with jose. The keys of an issuer are cached for ten minutes. */
export class JoseIdTokens implements IdTokenVerifier {
  readonly #deps: OidcDeps;
  readonly #known = new Map<string, Known>();

  constructor(deps: OidcDeps) {
    this.#deps = deps;
  }

  async verify(token: string, issuer: string): Promise<IdToken> {
    if (Buffer.byteLength(token) > MAX_ID_TOKEN_BYTES) {
      throw new IdTokenFailure('unfit', `the token has more than ${MAX_ID_TOKEN_BYTES / 1024} KB`);
    }
    checkHeader(token);
    const claims =
      (await this.#claims(token, issuer, KEPT_MS)) ??
      // The issuer may have begun to sign with a new key.
      (await this.#claims(token, issuer, COOLDOWN_MS));
    if (claims === undefined) throw new IdTokenFailure('unfit', 'its issuer has no such key');
    return tokenFrom(claims);
  }

  /** Returns the content of a token; `undefined` if the keys of the issuer, which are at most `maxAgeMs` old, lack its key. */
  async #claims(token: string, issuer: string, maxAgeMs: number): Promise<JWTPayload | undefined> {
    const keys = await this.#keysOf(issuer, maxAgeMs);
    try {
      const { payload } = await jwtVerify(token, keys, {
        algorithms: ALGORITHMS,
        issuer,
        clockTolerance: CLOCK_SKEW_SECONDS,
        maxTokenAge: MAX_AGE_SECONDS,
        requiredClaims: ['iss', 'sub', 'aud', 'exp', 'iat', 'jti'],
        currentDate: new Date(this.#deps.clock.now()),
      });
      return payload;
    } catch (error) {
      if (hasCode(error, 'ERR_JWKS_NO_MATCHING_KEY')) return undefined;
      throw failureOf(error);
    }
  }

  /** Returns the keys of an issuer, which are at most `maxAgeMs` old. */
  #keysOf(issuer: string, maxAgeMs: number): Promise<Keys> {
    const now = this.#deps.clock.now();
    const before = this.#known.get(issuer);
    if (before !== undefined && before.at + maxAgeMs > now) return before.keys;
    const known: Known = { keys: this.#fetchKeys(issuer), at: now };
    this.#known.delete(issuer);
    if (this.#known.size >= MAX_ISSUERS) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(issuer, known);
    known.keys.catch(() => {
      if (this.#known.get(issuer) === known) this.#known.delete(issuer);
    });
    return known.keys;
  }

  async #fetchKeys(issuer: string): Promise<Keys> {
    const about = await this.#fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    // Otherwise one issuer could answer with the keys of another (OpenID Connect Discovery 1.0, section 4.3).
    if (about.issuer !== issuer || typeof about.jwks_uri !== 'string') {
      throw new IdTokenFailure('unreachable', `${hostOf(issuer)} answered with the configuration of another issuer`);
    }
    const keys = await this.#fetchJson(about.jwks_uri);
    try {
      return createLocalJWKSet(keys as unknown as Parameters<typeof createLocalJWKSet>[0]);
    } catch {
      throw new IdTokenFailure('unreachable', `${hostOf(issuer)} answered with something else than its keys`);
    }
  }

  async #fetchJson(url: string): Promise<Record<string, unknown>> {
    const host = hostOf(url);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      const headers = { accept: 'application/json' };
      const { status, body } = await this.#deps.outbound.exchange({ method: 'GET', url, headers, signal });
      const pieces: Uint8Array[] = [];
      let bytes = 0;
      for await (const piece of body) {
        bytes += piece.byteLength;
        if (bytes > MAX_ANSWER_BYTES) {
          throw new IdTokenFailure('unreachable', `${host} answered more than ${MAX_ANSWER_BYTES / 1024} KB`);
        }
        pieces.push(piece);
      }
      // Redirects are not followed: the address of the keys is the one that the issuer states.
      if (status !== 200) throw new IdTokenFailure('unreachable', `${host} answered ${status} instead of its keys`);
      const value: unknown = JSON.parse(Buffer.concat(pieces).toString());
      if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
      throw new IdTokenFailure('unreachable', `${host} answered with something else than an object`);
    } catch (error) {
      if (hasCode(error, 'ID_TOKEN_REFUSED')) throw error;
      if (hasCode(error, 'OUTBOUND_FAILED')) {
        throw new IdTokenFailure('unreachable', `${host} ${(error as OutboundFailure).message}`);
      }
      if (signal.aborted) {
        throw new IdTokenFailure('unreachable', `${host} did not answer within ${TIMEOUT_MS / 1000} seconds`);
      }
      if (error instanceof SyntaxError) {
        throw new IdTokenFailure('unreachable', `${host} answered with something else than JSON`);
      }
      throw error;
    }
  }
}

const hostOf = (url: string): string => URL.parse(url)?.host ?? 'the address of its keys';

/** Throws for a token that no request is worth. Without the name of a key, several keys would have to be tried. */
function checkHeader(token: string): void {
  let header: ReturnType<typeof decodeProtectedHeader>;
  try {
    header = decodeProtectedHeader(token);
  } catch {
    throw new IdTokenFailure('unfit', 'it is not a signed JSON Web Token');
  }
  if (header.alg === undefined || !ALGORITHMS.includes(header.alg)) {
    throw new IdTokenFailure('unfit', `its algorithm is not one of ${ALGORITHMS.join(', ')}`);
  }
  if (typeof header.kid !== 'string') throw new IdTokenFailure('unfit', 'it does not name the key that signed it');
}

function tokenFrom({ sub, aud, jti, exp, iat, ...rest }: JWTPayload): IdToken {
  if (typeof sub !== 'string' || typeof jti !== 'string' || jti === '' || jti.length > MAX_ID) {
    throw new IdTokenFailure('unfit', 'its claims "sub" and "jti" must be texts');
  }
  const audiences = [aud].flat().filter((each) => typeof each === 'string');
  const lastSecond = Math.min(exp!, iat! + MAX_AGE_SECONDS) + CLOCK_SKEW_SECONDS;
  return {
    subject: sub,
    audiences,
    id: jti,
    validUntil: lastSecond * 1000,
    claims: { ...rest, sub, aud, jti, exp, iat },
  };
}

const REASONS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'it has expired, or was made too long ago',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'its signature is wrong',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'its issuer has several keys of that name',
  ERR_JWS_INVALID: 'it is not a signed JSON Web Token',
  ERR_JWT_INVALID: 'its content is not a set of claims',
};

/** Names what is wrong in our own words: messages of the library may have parts of the token. */
function failureOf(error: unknown): unknown {
  const { code = '', claim } = error as { readonly code?: string; readonly claim?: string };
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED') {
    return new IdTokenFailure('unfit', `its claim "${claim}" is missing or wrong`);
  }
  if (Object.hasOwn(REASONS, code)) return new IdTokenFailure('unfit', REASONS[code]!);
  // Whatever else the library, or the cryptography below it, refuses.
  if (/^ERR_J(OSE|W)/.test(code) || error instanceof TypeError || isOfCrypto(error)) {
    return new IdTokenFailure('unfit', 'it, or the key of its issuer, cannot be used');
  }
  return error;
}

const isOfCrypto = (error: unknown): boolean =>
  ['DataError', 'OperationError', 'NotSupportedError'].includes((error as { readonly name?: string }).name ?? '');
