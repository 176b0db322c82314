import { DocumentStore } from '#core/accounts/documents/store.ts';
import { checkScope, mayUse } from '#core/accounts/grants/rights.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Returns the documents that a request may use: those of the workspace or, for the run of a foreign agent without the
 * grant, its own (`docs/interface/storage.md#documents-of-foreign-agents`). Throws FORBIDDEN if such a run uses the
 * full name of an agent's namespace.
 *
 * @param namespace Namespace in the path.
 */
export async function documentsOf(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>,
  { workspace, agent }: Pick<Caller, 'workspace' | 'agent'>,
  namespace: string,
): Promise<DocumentStore> {
  if (agent === undefined || (await mayUse(deps, agent, 'storage'))) return new DocumentStore(deps, workspace.id);
  if (namespace.includes('.')) await checkScope(deps, agent, 'storage');
  // Without the version of `org/agent@v1`, because documents outlive the version.
  const [org, name] = agent.name.replace(/@.*/, '').split('/');
  return new DocumentStore(deps, workspace.id, `${org}.${name}.`);
}
