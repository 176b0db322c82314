import type { Table } from '#core/ports/table.ts';

/** Where a stage keeps the secrets of its workspaces. */
export type SecretsPlace = 'secrets-manager' | 'envelope';
/** What functions have access to: both while vaults move from one place to the other. */
export type SecretsAccess = SecretsPlace | 'both';

/** Item of the main table. Without it, Secrets Manager has all vaults. */
const KEY = { pk: 'PLATFORM', sk: 'SECRETS_PLACE' };

export interface Placed {
  /** Where changed and new vaults are written. */
  readonly place: SecretsPlace;
  /** Whether some vaults may still be in the other place. */
  readonly isMoving: boolean;
}

export async function placeOf(main: Table): Promise<Placed> {
  const item = await main.get(KEY);
  if (item === undefined) return { place: 'secrets-manager', isMoving: false };
  return { place: item.place as SecretsPlace, isMoving: item.is_moving as boolean };
}

export async function recordPlace(main: Table, { place, isMoving }: Placed): Promise<void> {
  await main.put({ ...KEY, place, is_moving: isMoving });
}

/**
 * Throws unless functions with this access find every vault. A new stage takes the place that it is deployed with.
 */
export async function takeSecretsPlace(main: Table, access: SecretsAccess, isNew: boolean): Promise<void> {
  if (isNew && access === 'envelope') await recordPlace(main, { place: 'envelope', isMoving: false });
  const { place, isMoving } = await placeOf(main);
  if (access === 'both' || (access === place && !isMoving)) return;
  throw new Error(
    `The secrets of this stage are ${isMoving ? `on their way to ${place}` : `in ${place}`}, and functions with secrets: '${access}' would not find all of them: deploy secrets: 'both', then run npm run aws:secrets -- move (docs/secrets-on-aws.md).`,
  );
}
