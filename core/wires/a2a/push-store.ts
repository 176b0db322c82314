import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, type Key } from '#core/ports/table.ts';
import { hexOf, runExpiry } from '#core/runs/items.ts';

/** Maximum number of addresses that one task is pushed to: all are in one item. */
export const MAX_PUSHES = 10;

export interface TaskPlace {
  readonly workspaceId: string;
  readonly runId: string;
}

/** Where a client wants its task posted. */
export interface PushConfig {
  readonly id: string;
  readonly url: string;
}

/** What proves to a receiver that a message is meant for it: no answer and no log has it. */
export interface PushSecrets {
  /** Value of `X-A2A-Notification-Token`. */
  readonly token?: string | undefined;
  /** Value of `Authorization`. */
  readonly authorization?: string | undefined;
}

/**
 * Runs table: `WS#<workspace id>#PUSHES / <run id without dashes>`: where a task is posted. Its secrets are sealed with a data
 * key of the vault. It expires with the run.
 */
interface Stored extends PushConfig {
  /** {@link PushSecrets}, encrypted. */
  readonly sealed: string;
}

type StoreDeps = Pick<Deps, 'runs' | 'vault' | 'clock' | 'config'>;
type Reading = Pick<Deps, 'runs'>;

const keyOf = ({ workspaceId, runId }: TaskPlace): Key => ({ pk: `WS#${workspaceId}#PUSHES`, sk: hexOf(runId) });
const sealName = ({ workspaceId, runId }: TaskPlace, id: string): string => `${workspaceId}/push/${runId}/${id}`;
const storedIn = (item: Item | undefined): readonly Stored[] => (item?.configs ?? []) as unknown as readonly Stored[];
const shown = ({ id, url }: Stored): PushConfig => ({ id, url });

/** Oldest first. */
export async function listPushes({ runs }: Reading, place: TaskPlace): Promise<PushConfig[]> {
  return storedIn(await runs.get(keyOf(place))).map(shown);
}

/** Returns an address with its secrets. */
export async function openPush(
  { runs, vault }: Pick<Deps, 'runs' | 'vault'>,
  place: TaskPlace,
  id: string,
): Promise<(PushConfig & PushSecrets) | undefined> {
  const item = await runs.get(keyOf(place));
  const stored = storedIn(item).find((each) => each.id === id);
  if (stored === undefined) return undefined;
  const key = await vault.openDataKey(place.workspaceId, item!.sealed_key as string);
  const opened = openBytes(key, sealName(place, id), Buffer.from(stored.sealed, 'base64'));
  return { ...shown(stored), ...(JSON.parse(opened.toString()) as PushSecrets) };
}

/** Adds an address to a task, or replaces the one with its id. Returns false if the task has {@link MAX_PUSHES} others. */
export const putPush = (
  deps: StoreDeps,
  place: TaskPlace,
  { id, url, ...secrets }: PushConfig & PushSecrets,
): Promise<boolean> =>
  change(deps, place, async (item) => {
    const others = storedIn(item).filter((each) => each.id !== id);
    if (others.length >= MAX_PUSHES) return undefined;
    const { key, sealed: sealedKey } =
      item === undefined
        ? await deps.vault.newDataKey(place.workspaceId)
        : {
            key: await deps.vault.openDataKey(place.workspaceId, item.sealed_key as string),
            sealed: item.sealed_key as string,
          };
    const sealed = sealBytes(key, sealName(place, id), Buffer.from(JSON.stringify(secrets))).toString('base64');
    return { sealedKey, configs: [...others, { id, url, sealed }] };
  });

/** Removes an address; returns false if it is not there. */
export const removePush = (deps: StoreDeps, place: TaskPlace, id: string): Promise<boolean> =>
  change(deps, place, async (item) => {
    const configs = storedIn(item).filter((each) => each.id !== id);
    if (item === undefined || configs.length === storedIn(item).length) return undefined;
    return { sealedKey: item.sealed_key as string, configs };
  });

async function change(
  { runs, clock, config }: StoreDeps,
  place: TaskPlace,
  decide: (
    item: Item | undefined,
  ) => Promise<{ readonly sealedKey: string; readonly configs: readonly Stored[] } | undefined>,
): Promise<boolean> {
  return retryOnConflict(clock, `addresses of the task ${place.runId}`, async () => {
    const item = await runs.get(keyOf(place));
    const decided = await decide(item);
    if (decided === undefined) return false;
    const number = (item?.change_number as number | undefined) ?? 0;
    const { ok } = await runs.put(
      {
        ...keyOf(place),
        change_number: number + 1,
        sealed_key: decided.sealedKey,
        configs: decided.configs as unknown as Item['configs'],
        ttl: runExpiry(config, clock.now()),
      },
      item === undefined ? absent() : equals('change_number', number),
    );
    return ok || undefined;
  });
}
