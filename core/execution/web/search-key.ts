import { grantedSecrets } from '#core/accounts/grants/rights.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import type { ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { SEARCH_PROVIDERS } from '#core/runs/run.ts';
import type { SearchKey } from './search.ts';
import { SEARCH_ROWS, SEARCH_SECRETS } from './search-providers.ts';

/**
 * Reads the key with which a run searches the web. It is a secret of the workspace that pays; agents of other workspaces
 * need a grant of it. Throws MISSING_SECRETS if there is none.
 */
export async function searchKeyOf(
  deps: Deps,
  { workspaceId, foreign }: { readonly workspaceId: string; readonly foreign: readonly ForeignAgent[] },
): Promise<SearchKey> {
  const { granted, lacking, requestsFor } = await grantedSecrets(deps, workspaceId, foreign, SEARCH_SECRETS);
  const values = await new SecretStore(deps, workspaceId).values(granted);
  for (const provider of SEARCH_PROVIDERS) {
    const apiKey = values[SEARCH_ROWS[provider].secret];
    if (apiKey !== undefined) return { provider, apiKey };
  }
  const [first] = SEARCH_SECRETS;
  const requests = requestsFor(lacking);
  const hint =
    requests.length > 0
      ? `An owner of the workspace can grant it: ${requests.join('; ')}`
      : `web_search needs the key of one provider: ${SEARCH_SECRETS.join(' or ')}. Add it with PUT /workspaces/{id}/secrets.`;
  throw new PlatformError('MISSING_SECRETS', `Secrets not found in workspace: ${first}.`, { hint });
}
