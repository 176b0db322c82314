import { type DynamoDBClient, paginateScan } from '@aws-sdk/client-dynamodb';
import {
  DeleteSecretCommand,
  paginateListSecrets,
  RestoreSecretCommand,
  type SecretsManagerClient,
} from '@aws-sdk/client-secrets-manager';
import type { Clock } from '#core/ports/clock.ts';
import type { Table } from '#core/ports/table.ts';
import { SIGNING_PREFIX } from '#core/ports/vault.ts';
import type { EnvelopeVault } from './envelope-vault.ts';
import { MOVE_LOCK_SECONDS, type MovingVault } from './moving-vault.ts';
import { placeOf, recordPlace, type SecretsPlace } from './place.ts';

/** Secrets Manager allows 50 changes a second. */
const CONCURRENCY = 5;
/** A writer that knew of no move has ended by then, and Secrets Manager lists what it created. */
const SETTLE_MS = MOVE_LOCK_SECONDS * 1000;
const PROGRESS_EVERY = 100;
/** Time in which a deleted secret can be restored; Secrets Manager does not bill it meanwhile. */
const RECOVERY_DAYS = 30;
const VAULT = new RegExp(`^(${SIGNING_PREFIX})?[\\da-f]{8}(-[\\da-f]{4}){3}-[\\da-f]{12}$`);

export interface MoveProps {
  readonly vault: MovingVault;
  readonly envelopes: EnvelopeVault;
  readonly main: Table;
  readonly clock: Clock;
  readonly secrets: SecretsManagerClient;
  readonly tables: DynamoDBClient;
  readonly mainTable: string;
  /** Prefix of the names of vaults in Secrets Manager, without the slash. */
  readonly prefix: string;
  readonly say: (line: string) => void;
}

/**
 * Moves all vaults of a stage, whose functions must have access to both places. Runs meanwhile find their secrets. Safe to
 * repeat, also after a kill, and in the other direction before it has ended.
 */
export async function moveSecrets(props: MoveProps, to: SecretsPlace): Promise<void> {
  const { main, clock, say, vault } = props;
  const { place, isMoving } = await placeOf(main);
  if (place === to && !isMoving) say(`The secrets are recorded as being in ${NAMES[to]}: looking for others.`);
  if (to === 'secrets-manager') await restoreDeleted(props);
  await recordPlace(main, { place: to, isMoving: true });
  const begunAt = clock.now();
  let total = 0;
  for (;;) {
    const passAt = clock.now();
    let moved = 0;
    let failed = 0;
    await eachOf(vaultsOutside(props, to), async (workspaceId) => {
      try {
        if (!(await vault.move(workspaceId))) return;
      } catch (error) {
        failed++;
        say(`The vault of workspace ${workspaceId} was not moved: ${error}`);
        return;
      }
      moved++;
      total++;
      if (total % PROGRESS_EVERY === 0) say(`${total} vaults moved`);
    });
    const waitMs = begunAt + SETTLE_MS - passAt;
    if (moved === 0 && waitMs <= 0) {
      if (failed === 0) break;
      throw new Error(`${total} vaults moved, and ${failed} could not be: repeat the command once that is mended.`);
    }
    if (waitMs > 0) {
      say(
        `${total} vaults moved. Looking again in ${Math.ceil(waitMs / 1000)} s, when writers that had begun have ended.`,
      );
      await clock.sleep(Math.max(0, begunAt + SETTLE_MS - clock.now()));
    }
  }
  await recordPlace(main, { place: to, isMoving: false });
  say(`${total} vaults moved: all secrets are in ${NAMES[to]}. Now deploy the stage with secrets: '${to}'.`);
}

/** Prints where the vaults are, and changes nothing. Returns the number of vaults that cannot be opened. */
export async function describeSecrets({ main, say, vault, ...props }: MoveProps): Promise<number> {
  const { place, isMoving } = await placeOf(main);
  const counts = { envelope: 0, 'secrets-manager': 0 };
  let damaged = 0;
  const workspaces = new Set<string>();
  for await (const id of namedSecrets(props)) workspaces.add(id);
  for await (const id of envelopeHeads(props)) workspaces.add(id);
  await eachOf(workspaces, async (workspaceId) => {
    try {
      const found = await vault.placeOfVault(workspaceId);
      if (found) counts[found]++;
    } catch (error) {
      damaged++;
      say(String(error));
    }
  });
  say(`New and changed secrets go to ${NAMES[place]}${isMoving ? ', and the others move there' : ''}.`);
  say(`In envelopes: ${counts.envelope} vaults. In Secrets Manager: ${counts['secrets-manager']}.`);
  return damaged;
}

/**
 * Deletes the copies that a completed move left in the other place, if the vault can be opened in its own. Returns the number of
 * copies kept because it cannot.
 */
export async function deleteMovedSecrets(props: MoveProps): Promise<number> {
  const { main, vault, say, secrets, envelopes, prefix } = props;
  const { place, isMoving } = await placeOf(main);
  if (isMoving) throw new Error(`The secrets are on their way to ${NAMES[place]}: finish the move first.`);
  let deleted = 0;
  let kept = 0;
  await eachOf(place === 'envelope' ? namedSecrets(props) : envelopeHeads(props), async (workspaceId) => {
    const found = await vault.placeOfVault(workspaceId).catch((error) => say(String(error)));
    if (found !== place) {
      kept++;
      say(`Kept the copy of workspace ${workspaceId}: its vault cannot be opened in ${NAMES[place]}.`);
      return;
    }
    if (place === 'envelope') {
      const SecretId = `${prefix}/${workspaceId}`;
      await secrets.send(new DeleteSecretCommand({ SecretId, RecoveryWindowInDays: RECOVERY_DAYS }));
    } else await envelopes.deleteLeft(workspaceId);
    deleted++;
  });
  const until = place === 'envelope' ? `, restorable for ${RECOVERY_DAYS} days` : '';
  say(`${deleted} copies deleted${until}. ${kept} kept.`);
  return kept;
}

const NAMES = { envelope: 'envelopes', 'secrets-manager': 'Secrets Manager' };

/** Yields workspaces that may have a vault elsewhere than in `place`. */
const vaultsOutside = (props: MoveProps, place: SecretsPlace): AsyncIterable<string> =>
  place === 'envelope' ? namedSecrets(props) : envelopeHeads(props);

/** Yields the workspaces of the vaults in Secrets Manager. */
async function* namedSecrets(
  { secrets, prefix }: Pick<MoveProps, 'secrets' | 'prefix'>,
  { areDeleted = false }: { readonly areDeleted?: boolean } = {},
): AsyncGenerator<string> {
  const named = { Filters: [{ Key: 'name' as const, Values: [`${prefix}/`] }], IncludePlannedDeletion: areDeleted };
  for await (const { SecretList = [] } of paginateListSecrets({ client: secrets }, named)) {
    for (const { Name = '', DeletedDate } of SecretList) {
      // The filter is case-insensitive, and the operator may have secrets below the same prefix.
      const workspaceId = Name.startsWith(`${prefix}/`) ? Name.slice(prefix.length + 1) : '';
      if (VAULT.test(workspaceId) && (DeletedDate !== undefined) === areDeleted) yield workspaceId;
    }
  }
}

/** Yields the workspaces that have, or had, a vault of envelopes. Reads the whole table. */
async function* envelopeHeads({ tables, mainTable }: Pick<MoveProps, 'tables' | 'mainTable'>): AsyncGenerator<string> {
  const scan = {
    TableName: mainTable,
    ConsistentRead: true,
    FilterExpression: 'sk = :head AND begins_with(pk, :vault)',
    ExpressionAttributeValues: { ':head': { S: 'HEAD' }, ':vault': { S: 'VAULT#' } },
    ProjectionExpression: 'pk',
  };
  for await (const { Items = [] } of paginateScan({ client: tables }, scan)) {
    for (const { pk } of Items) yield pk!.S!.slice('VAULT#'.length);
  }
}

/** A secret that waits for its deletion can neither be read nor created. */
async function restoreDeleted({ secrets, prefix, say }: MoveProps): Promise<void> {
  let restored = 0;
  for await (const workspaceId of namedSecrets({ secrets, prefix }, { areDeleted: true })) {
    await secrets.send(new RestoreSecretCommand({ SecretId: `${prefix}/${workspaceId}` }));
    restored++;
  }
  if (restored > 0) say(`${restored} deleted secrets restored, for their new values.`);
}

async function eachOf(
  ids: AsyncIterable<string> | Iterable<string>,
  work: (id: string) => Promise<void>,
): Promise<void> {
  const working = new Set<Promise<void>>();
  for await (const id of ids) {
    const done: Promise<void> = work(id).finally(() => working.delete(done));
    working.add(done);
    if (working.size >= CONCURRENCY) await Promise.race(working);
  }
  await Promise.all(working);
}
