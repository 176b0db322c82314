import type { AllDeps } from '#core/ports/deps.ts';
import { lazyIdTokens } from '#core/ports/id-tokens.ts';
import type { HostDeps } from './deps.ts';

// Apart from `deps.ts`, which every function loads.
export const idTokenParts = ({ clock, outbound }: HostDeps): Pick<AllDeps, 'idTokens'> => ({
  idTokens: lazyIdTokens(async () => {
    const { JoseIdTokens } = await import('#adapters/oidc/id-tokens.ts');
    return new JoseIdTokens({ clock, outbound });
  }),
});
