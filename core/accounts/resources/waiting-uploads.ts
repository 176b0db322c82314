import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, anyOf, type Condition, equals, type Item, lessThan } from '#core/ports/table.ts';
import { quotaError } from './quota.ts';

/**
 * Bytes reserved by unexpired forms of `POST /uploads`. Counters table: `WS#<workspace id>#LIMITS / UPLOADS`
 * has their total `bytes`, and the part that expires by the end of each five minutes (`until_<epoch seconds>`), at most
 * fourteen of them. On AWS the platform does not learn what was uploaded with a form, so a form counts with its maximum
 * size.
 */
const uploadsKey = (workspaceId: string) => ({ pk: `WS#${workspaceId}#LIMITS`, sk: 'UPLOADS' });
const SLOT_SECONDS = 300;
const SLOT = /^until_(\d+)$/;

type ReserveDeps = Pick<Deps, 'counters' | 'clock' | 'config'>;

/**
 * Reserves `bytes` for a form until `expiresAt` (epoch milliseconds). Throws RATE_LIMITED, and reserves nothing, if the
 * forms of the workspace would exceed its plan.
 */
export async function reserveUpload(
  deps: ReserveDeps,
  workspace: Workspace,
  { bytes, expiresAt }: { readonly bytes: number; readonly expiresAt: number },
): Promise<void> {
  const { counters, clock } = deps;
  const plan = planOf(deps, workspace);
  const limit = plan.upload_bytes;
  const key = uploadsKey(workspace.id);
  const slot = `until_${Math.ceil(epochSeconds(expiresAt) / SLOT_SECONDS) * SLOT_SECONDS}`;
  await retryOnConflict(clock, `the uploads of ${workspace.id}`, async () => {
    const now = epochSeconds(clock.now());
    const item = await counters.get(key);
    const slots = slotsOf(item);
    const expired = slots.filter(({ until }) => until <= now);
    const freed = sum(expired);
    const used = sum(slots) - freed;
    if (limit !== null && used + bytes > limit) {
      const first = Math.min(...slots.filter(({ until }) => until > now).map(({ until }) => until));
      throw quotaError('upload_bytes', plan, { used, growth: bytes, waitSeconds: Math.max(1, first - now) });
    }
    const conditions: Condition[] = expired.map((each) => equals(each.name, each.bytes));
    if (limit !== null) {
      conditions.push(anyOf(absent('bytes'), lessThan('bytes', limit - bytes + freed + 1)));
    }
    const { ok } = await counters.transact([
      {
        op: 'update',
        key,
        changes: { add: { bytes: bytes - freed, [slot]: bytes }, remove: expired.map(({ name }) => name) },
        ...(conditions.length > 0 && { condition: allOf(...conditions) }),
      },
    ]);
    return ok || undefined;
  });
}

/** Returns the bytes reserved by the workspace's unexpired forms. */
export async function waitingUploadBytes(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  workspaceId: string,
): Promise<number> {
  const now = epochSeconds(clock.now());
  return sum(slotsOf(await counters.get(uploadsKey(workspaceId))).filter(({ until }) => until > now));
}

interface Slot {
  readonly name: string;
  /** Epoch seconds. */
  readonly until: number;
  readonly bytes: number;
}

const slotsOf = (item: Item | undefined): Slot[] =>
  Object.entries(item ?? {}).flatMap(([name, bytes]) => {
    const until = SLOT.exec(name)?.[1];
    return until === undefined ? [] : [{ name, until: Number(until), bytes: bytes as number }];
  });

const sum = (slots: readonly Slot[]): number => slots.reduce((total, { bytes }) => total + bytes, 0);
