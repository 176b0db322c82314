/** Claims of an ID token, or of the UserInfo endpoint. */
export interface Claims {
  readonly [name: string]: unknown;
}

/**
 * Whether an issuer says that `email` is verified (OpenID Connect Core 1.0, section 5.1). Some write booleans as text. Microsoft has a
 * claim of its own, because its tenants may write any address into `email`.
 */
export function isVerified(issuer: string, { email_verified, xms_edov }: Claims): boolean {
  const isMicrosoft = new URL(issuer).hostname === 'login.microsoftonline.com';
  const verified = isMicrosoft ? xms_edov : email_verified;
  return verified === true || verified === 'true' || (isMicrosoft && (verified === 1 || verified === '1'));
}
