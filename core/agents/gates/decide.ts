import type { AgentVersion, Gate } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { exists, type Item } from '#core/ports/table.ts';
import { changeHead, readHead, versionKey } from '../record.ts';
import { switchTo } from '../switch.ts';
import { type GateItem, gateItem, readGate } from './gate-item.ts';
import { isHeld } from './standing.ts';

export type Decision = Pick<Gate, 'verdict' | 'reason' | 'decidedBy'> & {
  readonly status: 'passed' | 'failed' | 'overridden';
  /** The evaluation that decides. @default - the one before */
  readonly evalId?: string;
};

/**
 * Decides about the gate of a version that it holds. An opened version that can run becomes current, unless a newer one is. Returns
 * whether the decision was made: false if the gate is open, or the version is gone. Safe to repeat.
 */
export async function decideGate(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  version: Pick<AgentVersion, 'id' | 'workspaceId' | 'name' | 'version'>,
  { status, verdict, reason, decidedBy, evalId }: Decision,
): Promise<boolean> {
  const { workspaceId, name } = version;
  const key = versionKey({ workspaceId, name, version: version.version });
  const { isMade } = await retryOnConflict(clock, `the agent ${name}`, async () => {
    const head = await readHead({ main }, workspaceId, name);
    const item = await main.get(key);
    const gate = liveGate(item, version.id);
    if (gate === undefined || !isHeld({ gate })) return { isMade: false };
    const now = isoTime(clock.now());
    const decided = gateItem({
      ...{ ...gate, status, verdict, reason, decidedBy, decidedAt: now },
      evalId: evalId ?? gate.evalId,
    });
    const isOpened = status !== 'failed' && item!.runnable === true;
    const switched = isOpened ? switchTo(version, head, now) : { set: {}, head: {}, operations: [] };
    const { ok } = await main.transact([
      {
        op: 'update',
        key,
        changes: { set: { gate: decided, updated_at: now, ...switched.set } },
        condition: exists(),
      },
      changeHead(version, head, switched.head),
      ...switched.operations,
    ]);
    return ok ? { isMade: true } : undefined;
  });
  return isMade;
}

function liveGate(item: Item | undefined, id: string): Gate | undefined {
  const isLive = item !== undefined && item.deleted_at === undefined && item.id === id;
  return isLive && item.gate !== undefined ? readGate(item.gate as unknown as GateItem) : undefined;
}
