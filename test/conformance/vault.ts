import { beforeAll, expect, test } from 'vitest';
import type { Vault } from '#core/ports/vault.ts';

/**
 * Rules for every adapter of {@link Vault}. `open` returns a factory of vaults over one store: each vault stands for
 * another process, where the host may have more than one.
 */
export function vaultConformance(open: () => Promise<() => Vault>): void {
  let anotherProcess: () => Vault;
  let vault: Vault;
  let workspaces = 0;
  const workspace = () => {
    workspaces += 1;
    return `ws_${workspaces}-X`;
  };

  beforeAll(async () => {
    anotherProcess = await open();
    vault = anotherProcess();
  });

  test('reads nothing before there is anything', async () => {
    const id = workspace();
    expect(await vault.read(id, ['A'])).toEqual({});
    await vault.remove(id, 'A');
    expect(await vault.read(id, ['A'])).toEqual({});
  });

  test('reads those of the names that exist', async () => {
    const id = workspace();
    await vault.write(id, 'A', 'the first');
    await vault.write(id, 'B', 'žluťoučký 🐎 "quoted" \n');
    expect(await vault.read(id, ['A', 'C', 'toString'])).toEqual({ A: 'the first' });
    expect(await vault.read(id, ['B', 'A'])).toEqual({ A: 'the first', B: 'žluťoučký 🐎 "quoted" \n' });
    expect(await vault.read(id, [])).toEqual({});
  });

  test('replaces and removes', async () => {
    const id = workspace();
    await vault.write(id, 'A', '1');
    await vault.write(id, 'B', '2');
    await vault.write(id, 'A', '3');
    expect(await vault.read(id, ['A', 'B'])).toEqual({ A: '3', B: '2' });
    await vault.remove(id, 'A');
    await vault.remove(id, 'A');
    expect(await vault.read(id, ['A', 'B'])).toEqual({ B: '2' });
    await vault.remove(id, 'B');
    expect(await vault.read(id, ['A', 'B'])).toEqual({});
    await vault.write(id, 'B', 'again');
    expect(await vault.read(id, ['A', 'B'])).toEqual({ B: 'again' });
  });

  test('keeps workspaces apart', async () => {
    const [one, other] = [workspace(), workspace()];
    await vault.write(one, 'A', 'of one');
    await vault.write(other, 'A', 'of the other');
    expect(await vault.read(one, ['A'])).toEqual({ A: 'of one' });
    expect(await vault.read(other, ['A'])).toEqual({ A: 'of the other' });
  });

  test('loses nothing of simultaneous writers, in one process and in several', async () => {
    const id = workspace();
    const processes = [vault, anotherProcess(), anotherProcess()];
    const names = Array.from({ length: 9 }, (_, n) => `NAME_${n}`);
    await Promise.all(names.map((name, n) => processes[n % 3]!.write(id, name, name)));
    expect(Object.keys(await anotherProcess().read(id, names)).sort()).toEqual(names);
  });

  test('what one process wrote for the first time another one finds', async () => {
    const id = workspace();
    const other = anotherProcess();
    await vault.write(id, 'A', '1');
    expect(await other.read(id, ['A'])).toEqual({ A: '1' });
    await vault.write(id, 'B', '2');
    expect(await other.read(id, ['A', 'B'])).toEqual({ A: '1', B: '2' });
  });

  test('is full at 64 KB, and stays as it was', async () => {
    const id = workspace();
    const names = Array.from({ length: 7 }, (_, n) => `N${n}`);
    for (const name of names) await vault.write(id, name, 'x'.repeat(8192));
    const full = vault.write(id, 'LAST', 'x'.repeat(8192));
    await expect(full).rejects.toMatchObject({ code: 'VAULT_FULL' });
    expect(Object.keys(await vault.read(id, [...names, 'LAST']))).toEqual(names);
    await vault.remove(id, 'N0');
    await vault.write(id, 'LAST', 'x'.repeat(8192));
  });

  test('refuses values and workspaces that cannot be', async () => {
    const id = workspace();
    await expect(vault.write(id, 'A', '')).rejects.toThrow('the value of secret A must have 1 to 8192 bytes, it has 0');
    await expect(vault.write(id, 'A', 'é'.repeat(4097))).rejects.toThrow('8194');
    for (const bad of ['', '../x', 'a/b', 'a.b', 'x'.repeat(65)]) {
      await expect(vault.read(bad, ['A'])).rejects.toThrow('workspace id');
      await expect(vault.write(bad, 'A', 'x')).rejects.toThrow('workspace id');
      await expect(vault.remove(bad, 'A')).rejects.toThrow('workspace id');
      await expect(vault.newDataKey(bad)).rejects.toThrow('workspace id');
      await expect(vault.openDataKey(bad, 'x')).rejects.toThrow('workspace id');
    }
  });

  test('makes data keys that any process opens, each different, and keeps none of them', async () => {
    const id = workspace();
    const made = await Promise.all(
      [vault, anotherProcess(), vault, anotherProcess()].map((each) => each.newDataKey(id)),
    );
    expect(new Set(made.map(({ key }) => Buffer.from(key).toString('hex'))).size).toBe(4);
    expect(new Set(made.map(({ sealed }) => sealed)).size).toBe(4);
    for (const { key, sealed } of made) {
      expect(key).toBeInstanceOf(Uint8Array);
      expect(key).toHaveLength(32);
      expect(sealed).toMatch(/^[\w-]{40,1000}$/);
      expect(Buffer.from(sealed, 'base64url').includes(Buffer.from(key))).toBe(false);
      for (const process of [vault, anotherProcess()]) {
        expect(Buffer.from(await process.openDataKey(id, sealed)).equals(key)).toBe(true);
      }
    }
    expect(await vault.read(id, ['data-key'])).toEqual({});
  });

  test('seals a data key of another vault as its own', async () => {
    const [id, other] = [workspace(), workspace()];
    const key = crypto.getRandomValues(new Uint8Array(32));
    const sealed = await vault.sealDataKey(id, key);
    expect(sealed).toMatch(/^[\w-]{40,1000}$/);
    expect(Buffer.from(await anotherProcess().openDataKey(id, sealed)).equals(key)).toBe(true);
    await expect(vault.openDataKey(other, sealed)).rejects.toMatchObject({ code: 'DATA_KEY' });
    await expect(vault.sealDataKey('../x', key)).rejects.toThrow('workspace id');
  });

  test('opens no data key of another workspace', async () => {
    const [one, other] = [workspace(), workspace()];
    const { sealed } = await vault.newDataKey(one);
    await expect(vault.openDataKey(other, sealed)).rejects.toMatchObject({ code: 'DATA_KEY', name: 'DataKeyError' });
  });

  test('opens no data key that is damaged anywhere, or is none', async () => {
    const id = workspace();
    const { sealed } = await vault.newDataKey(id);
    const bytes = Buffer.from(sealed, 'base64url');
    const damaged = [...bytes.keys()].map((at) => {
      const copy = Buffer.from(bytes);
      copy[at]! ^= 1;
      return copy.toString('base64url');
    });
    const cut = [bytes.subarray(1), bytes.subarray(0, -1), Buffer.concat([bytes, Buffer.of(0)])];
    const others = ['', '!', 'AAAA', `${sealed}=`, `${sealed} `, `${sealed}!`, sealed.slice(0, 10)];
    for (const text of [...damaged, ...cut.map((part) => part.toString('base64url')), ...others]) {
      await expect(vault.openDataKey(id, text), text).rejects.toMatchObject({ code: 'DATA_KEY' });
    }
  });
}
