import type { Clock } from '#core/ports/clock.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import type { Table } from '#core/ports/table.ts';
import {
  assertSecretValue,
  type DataKey,
  pickValues,
  type Vault,
  type VaultValues,
  withoutSecret,
  withSecret,
} from '#core/ports/vault.ts';
import { createEnvelopeVault, type EnvelopeVault } from './envelope-vault.ts';
import { placeOf, type SecretsPlace } from './place.ts';
import { type CreateVaultProps, createVault, type SecretsManagerVault } from './secrets-manager-vault.ts';

/** A change asks Secrets Manager and KMS four times, for ten seconds at most each, and the tables. */
export const MOVE_LOCK_SECONDS = 60;

export interface MovingVaultProps {
  readonly secretsManager: SecretsManagerVault;
  readonly envelopes: EnvelopeVault;
  readonly main: Table;
  readonly clock: Clock;
}

/** Uses the environment's Region and credentials. */
export const createMovingVault = ({ main, ...props }: CreateVaultProps & { readonly main: Table }): MovingVault =>
  new MovingVault({
    secretsManager: createVault(props),
    envelopes: createEnvelopeVault({ ...props, main }),
    main,
    clock: props.clock,
  });

/**
 * {@link Vault} of a stage whose secrets move from Secrets Manager to envelopes, or back. Each vault is in one place at any
 * moment, which its item `HEAD` names: it moves in one transaction, and its old copy is never read again. Writers hold the
 * lock of the workspace; they write to the place recorded for the stage, and thereby move the vault.
 */
export class MovingVault implements Vault {
  readonly #props: MovingVaultProps;

  constructor(props: MovingVaultProps) {
    this.#props = props;
  }

  async read(workspaceId: string, names: readonly string[], areSomeEnough?: boolean): Promise<Record<string, string>> {
    const { envelopes, secretsManager } = this.#props;
    const { values } = await envelopes.find(workspaceId);
    return values ? pickValues(values, names) : secretsManager.read(workspaceId, names, areSomeEnough);
  }

  async write(workspaceId: string, name: string, value: string): Promise<void> {
    assertSecretValue(name, value);
    await this.#change(workspaceId, (values) => withSecret(values, name, value));
  }

  async remove(workspaceId: string, name: string): Promise<void> {
    await this.#change(workspaceId, (values) => withoutSecret(values, name));
  }

  newDataKey(workspaceId: string): Promise<DataKey> {
    return this.#props.envelopes.newDataKey(workspaceId);
  }

  openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    return this.#props.envelopes.openDataKey(workspaceId, sealed);
  }

  sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    return this.#props.envelopes.sealDataKey(workspaceId, key);
  }

  /** Moves the vault of a workspace to the place recorded for the stage. Returns whether it was elsewhere. */
  async move(workspaceId: string): Promise<boolean> {
    const { place } = await placeOf(this.#props.main);
    const from = await this.placeOfVault(workspaceId);
    if (from === undefined || from === place) return false;
    await this.#change(workspaceId, (values) => values);
    return true;
  }

  /** Returns `undefined` for a workspace without a vault. */
  async placeOfVault(workspaceId: string): Promise<SecretsPlace | undefined> {
    const { envelopes, secretsManager } = this.#props;
    if ((await envelopes.find(workspaceId)).values) return 'envelope';
    return (await secretsManager.fetch(workspaceId)) && 'secrets-manager';
  }

  async #change(workspaceId: string, change: (values: VaultValues) => VaultValues): Promise<void> {
    const { secretsManager, main, clock } = this.#props;
    await secretsManager.withLock(
      workspaceId,
      async () => {
        // Read under the lock: who holds it longer has ended before the last pass of a move.
        const { place } = await placeOf(main);
        const write = place === 'envelope' ? this.#writeEnvelope : this.#writeSecret;
        await retryOnConflict(clock, 'the vault', () => write.call(this, workspaceId, change));
      },
      MOVE_LOCK_SECONDS,
    );
  }

  /** Returns `undefined` if a function without access to Secrets Manager, which takes no lock, was faster. */
  async #writeEnvelope(workspaceId: string, change: (values: VaultValues) => VaultValues): Promise<true | undefined> {
    const { envelopes, secretsManager } = this.#props;
    const { version, values: here } = await envelopes.find(workspaceId);
    const before = here ?? (await secretsManager.fetch(workspaceId));
    const values = change(before ?? new Map());
    if (here ? values === here : before === undefined && values.size === 0) return true;
    return (await envelopes.replace(workspaceId, version, values)) || undefined;
  }

  /**
   * Returns `undefined` in the same case. A process that dies between the two writes has changed nothing: the envelope
   * still counts.
   */
  async #writeSecret(workspaceId: string, change: (values: VaultValues) => VaultValues): Promise<true | undefined> {
    const { envelopes, secretsManager } = this.#props;
    const { version, values: left } = await envelopes.find(workspaceId);
    const stored = await secretsManager.fetch(workspaceId);
    const before = left ?? stored;
    const values = change(before ?? new Map());
    await secretsManager.store(workspaceId, values, stored);
    return left === undefined || (await envelopes.leave(workspaceId, version)) || undefined;
  }
}
