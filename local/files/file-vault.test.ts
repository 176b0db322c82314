import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { vaultConformance } from '#test/conformance/vault.ts';
import { FileVault } from './file-vault.ts';

let root: string;
const makeRoot = () => {
  root = mkdtempSync(join(tmpdir(), 'vault-'));
};
const removeRoot = () => rmSync(root, { recursive: true });

describe('FileVault', () => {
  beforeAll(makeRoot);
  afterAll(removeRoot);
  vaultConformance(async () => {
    const vault = new FileVault(join(root, 'secrets'), join(root, 'vault.key'));
    return () => vault;
  });
});

describe('FileVault on its disk', () => {
  let folder: string;
  let keyFile: string;
  const open = () => new FileVault(folder, keyFile);
  const wrong = (message: string) =>
    expect.objectContaining({ code: 'VAULT_KEY', message: expect.stringContaining(message) });

  beforeEach(async () => {
    makeRoot();
    folder = join(root, 'secrets');
    keyFile = join(root, 'vault.key');
    await open().write('ws', 'NAME', 'the-value');
  });
  afterEach(removeRoot);

  test('keeps nothing readable, and the key to its owner', async () => {
    expect(readdirSync(folder)).toEqual(['ws.vault']);
    expect(readFileSync(join(folder, 'ws.vault')).includes('the-value')).toBe(false);
    expect(readFileSync(join(folder, 'ws.vault')).includes('NAME')).toBe(false);
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(await open().read('ws', ['NAME'])).toEqual({ NAME: 'the-value' });
  });

  test.each<[string, () => void, string]>([
    ['missing', () => rmSync(keyFile), 'is missing'],
    ['wrong', () => writeFileSync(keyFile, `${'ab'.repeat(32)}\n`), 'another key file'],
    ['damaged', () => writeFileSync(keyFile, 'abc'), 'is damaged'],
  ])('a %s key file is an error, and changes nothing', async (_name, spoil, message) => {
    const before = readFileSync(join(folder, 'ws.vault'));
    const key = readFileSync(keyFile);
    spoil();
    const vault = open();
    await expect(vault.read('ws', ['NAME'])).rejects.toEqual(wrong(message));
    await expect(vault.write('ws', 'NAME', 'x')).rejects.toEqual(wrong(message));
    await expect(vault.write('another', 'NAME', 'x')).rejects.toEqual(wrong(message));
    await expect(vault.remove('ws', 'NAME')).rejects.toEqual(wrong(message));
    expect(readdirSync(folder)).toEqual(['ws.vault']);
    expect(readFileSync(join(folder, 'ws.vault')).equals(before)).toBe(true);
    // Once the key file is back, the vault works without a restart.
    writeFileSync(keyFile, key);
    expect(await vault.read('ws', ['NAME'])).toEqual({ NAME: 'the-value' });
  });

  test('a damaged or exchanged vault is an error', async () => {
    const path = join(folder, 'ws.vault');
    renameSync(path, join(folder, 'other.vault'));
    await expect(open().read('other', ['NAME'])).rejects.toEqual(wrong('other is damaged'));
    const sealed = readFileSync(join(folder, 'other.vault'));
    sealed[sealed.length - 1]! ^= 1;
    writeFileSync(path, sealed);
    await expect(open().read('ws', ['NAME'])).rejects.toEqual(wrong('ws is damaged'));
    writeFileSync(path, '');
    await expect(open().write('ws', 'NAME', 'x')).rejects.toEqual(wrong('a vault is damaged'));
  });

  describe('without secrets', () => {
    beforeEach(() => {
      rmSync(folder, { recursive: true });
      rmSync(keyFile);
    });

    test('the first data key creates the key file, and opens after a restart', async () => {
      const { key, sealed } = await open().newDataKey('ws');
      expect(readdirSync(root)).toEqual(['vault.key']);
      expect(statSync(keyFile).mode & 0o777).toBe(0o600);
      expect(Buffer.from(await open().openDataKey('ws', sealed))).toEqual(key);
      await open().write('ws', 'NAME', 'a secret, later');
      expect(Buffer.from(await open().openDataKey('ws', sealed))).toEqual(key);
    });

    test('many first data keys and secrets at once have one key', async () => {
      const vault = open();
      const made = await Promise.all([
        ...Array.from({ length: 8 }, () => vault.newDataKey('ws')),
        vault.write('ws', 'A', '1'),
      ]);
      for (const one of made) {
        if (one) expect(Buffer.from(await open().openDataKey('ws', one.sealed))).toEqual(one.key);
      }
      expect(await open().read('ws', ['A'])).toEqual({ A: '1' });
    });

    test('a missing key file stays missing when a data key is opened, and may come back', async () => {
      const { key, sealed } = await open().newDataKey('ws');
      const kept = readFileSync(keyFile);
      rmSync(keyFile);
      const vault = open();
      await expect(vault.openDataKey('ws', sealed)).rejects.toEqual(wrong('is missing'));
      expect(readdirSync(root)).toEqual([]);
      writeFileSync(keyFile, kept);
      expect(Buffer.from(await vault.openDataKey('ws', sealed))).toEqual(key);
    });
  });

  test('data keys need the key file of the secrets', async () => {
    const { sealed } = await open().newDataKey('ws');
    expect(readdirSync(folder)).toEqual(['ws.vault']);
    rmSync(keyFile);
    await expect(open().newDataKey('ws')).rejects.toEqual(wrong('is missing'));
    await expect(open().openDataKey('ws', sealed)).rejects.toEqual(wrong('is missing'));
    expect(readdirSync(root)).toEqual(['secrets']);
  });

  test('a data key is no vault, nor the other way round', async () => {
    const { sealed } = await open().newDataKey('ws');
    const secrets = readFileSync(join(folder, 'ws.vault'));
    const refused = expect.objectContaining({ code: 'DATA_KEY' });
    await expect(open().openDataKey('ws', secrets.toString('base64url'))).rejects.toEqual(refused);
    writeFileSync(join(folder, 'ws.vault'), Buffer.from(sealed, 'base64url'));
    await expect(open().read('ws', ['NAME'])).rejects.toEqual(wrong('ws is damaged'));
  });

  test('a data key that another key file sealed is refused', async () => {
    const { sealed } = await new FileVault(join(root, 'other'), join(root, 'other.key')).newDataKey('ws');
    await expect(open().openDataKey('ws', sealed)).rejects.toEqual(expect.objectContaining({ code: 'DATA_KEY' }));
  });
});
