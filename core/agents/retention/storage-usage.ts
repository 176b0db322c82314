import { quotaError, type UseReader } from '#core/accounts/resources/quota.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { type Plan, planOf } from '#core/base/plans.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { absent, allOf, type Condition, equals, exists, type Item, lessThan, queryAll } from '#core/ports/table.ts';
import { devIndex, workspaceIndex } from '../record.ts';

/**
 * Storage of a workspace's agents. Main table: `WS#<workspace id>#RESOURCES / AGENTS` has the number of `versions` and
 * their `bytes`: definitions and bundles of every version, and each layer once. Builds of `dev` count only in `bytes`.
 * The counters change in the same transaction as the data they count. Deleted versions count until they are purged.
 * `revision` grows with every change. gsi2 lists the item by the time of its next recount.
 */
export interface AgentUse {
  readonly versions: number;
  readonly bytes: number;
}

type UseDeps = Pick<Deps, 'main' | 'clock'>;
type QuotaPlan = Plan & { readonly name: string };

const useKey = (workspaceId: string) => ({ pk: `WS#${workspaceId}#RESOURCES`, sk: 'AGENTS' });
/** Layers that versions of a workspace use, by the hash of everything that determines their content. */
export const layersPartition = (workspaceId: string): string => `WS#${workspaceId}#LAYERS`;
/** Deleted versions that are not purged yet. */
export const deletedPartition = (workspaceId: string): string => `WS#${workspaceId}#DELETED`;

const RECOUNT_INDEX = 'RECOUNT';
const RECOUNT_AFTER_MS = 7 * 24 * 3600 * 1000;
/** Indexes may lag: workspaces changed more recently than this are not recounted. */
const SETTLED_AFTER_MS = 10 * 60_000;

const recountAt = (workspaceId: string, at: number) => ({
  gsi2pk: RECOUNT_INDEX,
  gsi2sk: `${isoTime(at)}#${workspaceId}`,
});

/** Reads the use of a workspace. Counts it first if there is no counter yet, as in data of version 0.1.0. */
export async function agentUse(deps: UseDeps, workspaceId: string): Promise<AgentUse> {
  const { main, clock } = deps;
  const key = useKey(workspaceId);
  const item = await main.get(key);
  if (item !== undefined) return useFrom(item);
  const now = clock.now();
  const counted = await countUse(deps, workspaceId);
  const first = { ...key, ...counted, revision: 0, changed_at: now, ...recountAt(workspaceId, now + RECOUNT_AFTER_MS) };
  if ((await main.put(first, absent())).ok) return counted;
  return useFrom((await main.get(key))!);
}

export const agentUseReader =
  (deps: UseDeps): UseReader =>
  async (workspaceId) => {
    const { versions, bytes } = await agentUse(deps, workspaceId);
    return { agent_versions: versions, agent_bytes: bytes };
  };

/** Finds the plan of a version's workspace. */
export const planOfWorkspace = async (deps: Pick<Deps, 'main' | 'config'>, workspaceId: string): Promise<QuotaPlan> =>
  planOf(deps, (await findWorkspace(deps, workspaceId)) ?? {});

/** Throws STORAGE_QUOTA_EXCEEDED or DOCUMENT_TOO_LARGE if the growth would exceed the plan. */
export function checkRoom(plan: QuotaPlan, use: AgentUse, growth: AgentUse): void {
  for (const [name, unit] of LIMITS) {
    const limit = plan[name];
    if (limit !== null && growth[unit] > 0 && use[unit] + growth[unit] > limit) {
      throw quotaError(name, plan, { used: use[unit], growth: growth[unit] });
    }
  }
}

/**
 * Operation that adds a (possibly negative) growth. It fails if the result exceeds the plan. Call {@link agentUse}
 * before.
 */
export function useOperation(
  { clock }: Pick<Deps, 'clock'>,
  workspaceId: string,
  growth: AgentUse,
  plan?: Plan,
): TransactOperation {
  const conditions: Condition[] = [exists('bytes')];
  for (const [name, unit] of LIMITS) {
    const limit = plan?.[name] ?? null;
    if (limit !== null && growth[unit] > 0) conditions.push(lessThan(unit, limit - growth[unit] + 1));
  }
  return {
    op: 'update',
    key: useKey(workspaceId),
    changes: { add: { ...growth, revision: 1 }, set: { changed_at: clock.now() } },
    condition: allOf(...conditions),
  };
}

const LIMITS = [
  ['agent_versions', 'versions'],
  ['agent_bytes', 'bytes'],
] as const;

/** Size of a version's definition, files of a skill, suites, and bundle. */
export function bytesOfVersion(item: Item): number {
  const { definition, definition_bytes: size } = item;
  const bundle = item.bundle as { readonly size_bytes: number } | undefined;
  // Versions of 0.1.0 record no size; their large definitions count as 0.
  const text = definition === undefined ? 0 : Buffer.byteLength(JSON.stringify(definition));
  const contents = (item.contents_bytes as number | undefined) ?? 0;
  const evals = (item.evals_bytes as number | undefined) ?? 0;
  return ((size as number | undefined) ?? text) + contents + evals + (bundle?.size_bytes ?? 0);
}

/** Recounts the workspaces that are due and corrects their counters if they differ. */
export async function recountDue(deps: UseDeps & Pick<Deps, 'log'>): Promise<void> {
  const sk = { lessThan: isoTime(deps.clock.now()) };
  for await (const item of queryAll(deps.main, { index: 'gsi2', pk: RECOUNT_INDEX, sk })) {
    await recount(deps, /^WS#(.*)#RESOURCES$/.exec(item.pk)![1]!);
  }
}

async function recount(deps: UseDeps & Pick<Deps, 'log'>, workspaceId: string): Promise<void> {
  const { main, clock, log } = deps;
  const item = await main.get(useKey(workspaceId));
  const now = clock.now();
  if (item === undefined || (item.changed_at as number) > now - SETTLED_AFTER_MS) return;
  const counted = await countUse(deps, workspaceId);
  const before = useFrom(item);
  const set = { ...counted, ...recountAt(workspaceId, now + RECOUNT_AFTER_MS) };
  const { ok } = await main.update(useKey(workspaceId), { set }, equals('revision', item.revision as number));
  if (ok && (before.bytes !== counted.bytes || before.versions !== counted.versions)) {
    log.warn('use of a workspace corrected', { workspace_id: workspaceId, before, counted });
  }
}

async function countUse({ main }: Pick<Deps, 'main'>, workspaceId: string): Promise<AgentUse> {
  let [versions, bytes] = [0, 0];
  for await (const item of queryAll(main, { index: 'gsi1', pk: workspaceIndex(workspaceId), limit: 1000 })) {
    if (item.deleted_at !== undefined) continue;
    versions += 1;
    bytes += bytesOfVersion(item);
  }
  for await (const item of queryAll(main, { index: 'gsi1', pk: devIndex(workspaceId), limit: 1000 })) {
    bytes += bytesOfVersion(item);
  }
  for await (const item of queryAll(main, { pk: deletedPartition(workspaceId), limit: 1000 })) {
    versions += item.dev_of === undefined ? 1 : 0;
    bytes += item.bytes as number;
  }
  for await (const item of queryAll(main, { pk: layersPartition(workspaceId), limit: 1000 })) {
    bytes += item.bytes as number;
  }
  return { versions, bytes };
}

const useFrom = ({ versions, bytes }: Item): AgentUse => ({ versions: versions as number, bytes: bytes as number });
