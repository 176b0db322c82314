import type { AgentVersion } from '#core/manifest/version.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { type Head, versionKey } from './record.ts';

interface Switch {
  /** Further members of the version. */
  readonly set: { readonly superseded_at?: string };
  readonly head: Partial<Head>;
  readonly operations: readonly TransactOperation[];
}

/**
 * Returns what makes a version current that may be. If a newer one is, it is superseded at once, so that `latest` never moves backwards,
 * in whatever order versions become ready.
 *
 * @param at ISO 8601
 */
export function switchTo(
  { workspaceId, name, version }: Pick<AgentVersion, 'workspaceId' | 'name' | 'version'>,
  { current }: Pick<Head, 'current'>,
  at: string,
): Switch {
  if (version < current) return { set: { superseded_at: at }, head: {}, operations: [] };
  const before = versionKey({ workspaceId, name, version: current });
  const supersede = { op: 'update', key: before, changes: { set: { superseded_at: at } } } as const;
  return { set: {}, head: { current: version }, operations: current === 0 ? [] : [supersede] };
}
