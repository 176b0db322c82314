import type { Deps } from '#core/ports/deps.ts';
import { exists, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { Conditions } from './conditions.ts';

/**
 * A trust of a workspace in the jobs of a CI system. Main table: `WS#<workspace id> / TRUST#<id>`. Keys that it gives name it,
 * and are refused without it.
 */
export interface Trust {
  readonly id: string;
  readonly workspaceId: string;
  readonly issuer: string;
  /** @default - the address of the platform */
  readonly audience?: string | undefined;
  readonly conditions: Conditions;
  /** Names of the only agents that may be published. @default - all */
  readonly agents?: readonly string[] | undefined;
  /** Whether only previews may be published. @default false */
  readonly previewsOnly?: true | undefined;
  /** ISO 8601. @default - never */
  readonly expiresAt?: string | undefined;
  /** Id of the user. */
  readonly createdBy: string;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
}

type TrustDeps = Pick<Deps, 'main'>;

const keyOf = (workspaceId: string, id: string) => ({ pk: `WS#${workspaceId}`, sk: `TRUST#${id}` });

const fromItem = (workspaceId: string, item: Item): Trust => ({
  id: item.id as string,
  workspaceId,
  issuer: item.issuer as string,
  audience: item.audience as string | undefined,
  conditions: item.conditions as Record<string, string>,
  agents: item.agents as string[] | undefined,
  previewsOnly: item.previews_only === true ? true : undefined,
  expiresAt: item.expires_at as string | undefined,
  createdBy: item.created_by as string,
  createdAt: item.created_at as string,
  lastUsedAt: (item.last_used_at as string | undefined) ?? null,
});

export async function putTrust({ main }: TrustDeps, trust: Omit<Trust, 'lastUsedAt'>): Promise<void> {
  await main.put({
    ...keyOf(trust.workspaceId, trust.id),
    id: trust.id,
    issuer: trust.issuer,
    audience: trust.audience,
    conditions: { ...trust.conditions },
    agents: trust.agents && [...trust.agents],
    previews_only: trust.previewsOnly,
    expires_at: trust.expiresAt,
    created_by: trust.createdBy,
    created_at: trust.createdAt,
  });
}

export async function findTrust({ main }: TrustDeps, workspaceId: string, id: string): Promise<Trust | undefined> {
  const item = await main.get(keyOf(workspaceId, id));
  return item && fromItem(workspaceId, item);
}

/** Lists the trusts of a workspace, oldest first. */
export async function listTrusts({ main }: TrustDeps, workspaceId: string): Promise<Trust[]> {
  const items = await Array.fromAsync(queryAll(main, { pk: `WS#${workspaceId}`, sk: { beginsWith: 'TRUST#' } }));
  const trusts = items.map((item) => fromItem(workspaceId, item));
  return trusts.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/** Deletes a trust: once this returns, its keys are refused. Returns false if there is none with this id. */
export async function deleteTrust({ main }: TrustDeps, workspaceId: string, id: string): Promise<boolean> {
  return (await main.delete(keyOf(workspaceId, id), exists())).ok;
}

/** Returns the write that records a use; it fails if the trust was deleted. */
export const useOfTrust = ({ workspaceId, id }: Trust, at: string): TransactOperation => ({
  op: 'update',
  key: keyOf(workspaceId, id),
  changes: { set: { last_used_at: at } },
  condition: exists(),
});

/** Whether the trust gives no more keys, and ends those that it gave. */
export const hasEnded = ({ expiresAt }: Pick<Trust, 'expiresAt'>, now: number): boolean =>
  expiresAt !== undefined && Date.parse(expiresAt) <= now;
