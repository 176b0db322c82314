import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { isComplete, moveWorkspace } from './moves.ts';

const cellOf = (cell: string) => {
  const said: string[] = [];
  return { ...memoryDeps({ cell }), say: (line: string) => void said.push(line), settleMs: 0, said };
};

test('a workspace moves over a folder, whose key lies beside it', async () => {
  const place = mkdtempSync(join(tmpdir(), 'moves-'));
  onTestFinished(() => rmSync(place, { recursive: true }));
  const folder = join(place, 'acme-move');
  const [old, next] = [cellOf('a'), cellOf('b')];
  const { workspaceId } = await addUser(old, 'acme');
  const given = { folder, to: 'b', wait: '0' };
  await expect(moveWorkspace(old, 'export', 'acme', { ...given, 'key-file': join(folder, 'key') })).rejects.toThrow(
    'outside of the folder',
  );
  await expect(moveWorkspace(next, 'import', undefined, { folder })).rejects.toThrow('There is no key file');
  await moveWorkspace(old, 'export', 'acme', given);
  expect(statSync(`${folder}.key`).mode & 0o777).toBe(0o600);
  const key = readFileSync(`${folder}.key`, 'utf8');
  await moveWorkspace(old, 'export', 'acme', given);
  expect(readFileSync(`${folder}.key`, 'utf8')).toBe(key);
  await moveWorkspace(old, 'cancel', 'acme', {});
  await expect(moveWorkspace(old, 'close', undefined, { folder })).rejects.toThrow('Import the workspace');
  rmSync(folder, { recursive: true });
  await moveWorkspace(old, 'export', 'acme', given);
  await moveWorkspace(next, 'import', undefined, { folder });
  expect(existsSync(`${folder}-directory-1.json`)).toBe(false);
  await moveWorkspace(old, 'close', undefined, { folder });
  expect(JSON.parse(readFileSync(`${folder}-directory-1.json`, 'utf8'))).toEqual([
    { Key: 'acme', Value: 'b' },
    { Key: expect.stringMatching(/^[\da-f]{64}$/), Value: 'b' },
  ]);
  await moveWorkspace(next, 'open', undefined, { folder });
  await moveWorkspace(old, 'forget', 'acme', {});
  expect((await findWorkspace(next, workspaceId))!.move).toBeUndefined();
  expect((await findWorkspace(old, workspaceId))!.move).toMatchObject({ state: 'moved', cell: 'b' });
});

test.each([
  ['export', 'acme', { folder: 'f', to: 'b' }, true],
  ['export', 'acme', { folder: 'f', to: 'b', wait: 'x' }, false],
  ['export', undefined, { folder: 'f', to: 'b' }, false],
  ['export', 'acme', { to: 'b' }, false],
  ['export', 'acme', { folder: 'f' }, false],
  ['import', undefined, { folder: 'f' }, true],
  ['import', 'acme', { folder: 'f' }, false],
  ['open', undefined, {}, false],
  ['cancel', 'acme', {}, true],
  ['forget', 'acme', { folder: 'f' }, false],
] as const)('%s of %s with %j is complete: %s', (action, workspace, given, is) => {
  expect(isComplete(action, workspace, given)).toBe(is);
});
