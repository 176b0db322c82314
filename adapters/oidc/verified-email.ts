/** Claims from an ID token or the UserInfo endpoint. */
export interface Claims {
  readonly [name: string]: unknown;
}

/**
 * Whether an issuer declares `email` verified (OpenID Connect Core 1.0, section 5.1). Some issuers send booleans as
 * text. Microsoft has a separate claim, because its tenants may put any address into `email`.
 */
export function isVerified(issuer: string, { email_verified, xms_edov }: Claims): boolean {
  const isMicrosoft = new URL(issuer).hostname === 'login.microsoftonline.com';
  const verified = isMicrosoft ? xms_edov : email_verified;
  return verified === true || verified === 'true' || (isMicrosoft && (verified === 1 || verified === '1'));
}
