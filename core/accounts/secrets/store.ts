import { isSettingsSecret } from '#core/models/compatible-providers.ts';
import { providerOfSecret } from '#core/models/providers.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, type Item, queryAll } from '#core/ports/table.ts';

/** Main table: `WS#<workspace id> / SECRET#<name>`. Values are only in the vault. */
export interface Secret {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  readonly secret_type: 'custom' | 'llm_key';
  readonly llm_provider: string | null;
  readonly created_by: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

function fromItem(item: Item): Secret {
  return {
    id: item.id as string,
    name: item.name as string,
    description: (item.description as string | undefined) ?? null,
    secret_type: item.secret_type as Secret['secret_type'],
    llm_provider: providerOfSecret(item.name as string) ?? null,
    created_by: item.created_by as string,
    created_at: item.created_at as string,
    updated_at: item.updated_at as string,
  };
}

/** The secrets of one workspace. */
export class SecretStore {
  readonly #deps: Pick<Deps, 'main' | 'vault' | 'clock' | 'ids'>;
  readonly #workspaceId: string;

  constructor(deps: Pick<Deps, 'main' | 'vault' | 'clock' | 'ids'>, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  #key(name: string) {
    return { pk: `WS#${this.#workspaceId}`, sk: `SECRET#${name}` };
  }

  async list(): Promise<Secret[]> {
    const items = queryAll(this.#deps.main, { pk: `WS#${this.#workspaceId}`, sk: { beginsWith: 'SECRET#' } });
    return (await Array.fromAsync(items)).map(fromItem);
  }

  /** Finds a secret by its name or id. Names have no dash, ids are UUIDs. */
  async find(nameOrId: string): Promise<Secret | undefined> {
    if (!nameOrId.includes('-')) {
      const item = nameOrId === '' ? undefined : await this.#deps.main.get(this.#key(nameOrId.slice(0, 256)));
      return item && fromItem(item);
    }
    return (await this.list()).find((secret) => secret.id === nameOrId);
  }

  /**
   * Creates or replaces a secret. The value is written first, so that every listed secret has one. Without a
   * `description`, the current one is kept.
   */
  async put(input: {
    name: string;
    value: string;
    description?: string | null;
    userId: string;
  }): Promise<{ secret: Secret; created: boolean }> {
    const { main, vault, clock, ids } = this.#deps;
    const { name, description } = input;
    const now = isoTime(clock.now());
    await vault.write(this.#workspaceId, name, input.value);
    const fresh: Item = {
      ...this.#key(name),
      id: ids.uuid(),
      name,
      description: description ?? null,
      secret_type: providerOfSecret(name) ? 'llm_key' : 'custom',
      created_by: input.userId,
      created_at: now,
      updated_at: now,
    };
    if ((await main.put(fresh, absent())).ok) return { secret: fromItem(fresh), created: true };
    const updated = await main.update(this.#key(name), {
      set: { updated_at: now, ...(description !== undefined && { description }) },
    });
    if (!updated.ok) throw new Error(`secret ${name} could not be updated`);
    return { secret: fromItem(updated.item), created: false };
  }

  /** Removes the value first: after a failure, the secret is still listed and can be deleted again. */
  async remove(name: string): Promise<void> {
    await this.#deps.vault.remove(this.#workspaceId, name);
    await this.#deps.main.delete(this.#key(name));
  }

  /**
   * Returns the values of the existing secrets among `names`. Only for injection into a run, which never gets the
   * settings of model providers.
   */
  async values(names: readonly string[]): Promise<Record<string, string>> {
    const injected = names.filter((name) => !isSettingsSecret(name));
    return injected.length === 0 ? {} : this.#deps.vault.read(this.#workspaceId, injected);
  }
}

/** Lists the names of a workspace's secrets, without access to their values. */
export async function secretNamesOf({ main }: Pick<Deps, 'main'>, workspaceId: string): Promise<Set<string>> {
  const items = queryAll(main, { pk: `WS#${workspaceId}`, sk: { beginsWith: 'SECRET#' }, limit: 1000 });
  return new Set((await Array.fromAsync(items)).map(({ name }) => name as string));
}
