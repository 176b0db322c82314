import { type OidcDeps, OpenIdProvider } from '#adapters/oidc/openid-provider.ts';
import type { SignInProvider } from '#core/ports/sign-in-provider.ts';
import { type KeptSecretProps, keptSecret } from './kept-secret.ts';

export interface OidcOnAwsProps extends KeptSecretProps, Pick<OidcDeps, 'outbound'> {
  readonly issuer: string;
  readonly clientId: string;
}

/**
 * Returns the OpenID provider with the client secret, cached for five minutes. The secret's text is the client secret
 * alone.
 */
export const oidcOnAws = ({ issuer, clientId, outbound, ...secret }: OidcOnAwsProps): (() => Promise<SignInProvider>) =>
  keptSecret(secret, (text) => {
    const clientSecret = text.trim();
    // The error does not contain the secret.
    if (clientSecret === '') throw new Error(`the secret ${secret.secretName} is empty (docs/sign-in.md)`);
    return new OpenIdProvider({ issuer, clientId, clientSecret }, { outbound, clock: secret.clock });
  });
