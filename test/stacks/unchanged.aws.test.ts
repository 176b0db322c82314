import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { synthesiseAnew } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';

test('an unchanged tree makes the same templates and assets again, so that `cdk diff` is empty', {
  timeout: 120_000,
}, () => {
  const [first, again] = [synthesiseAnew(dev), synthesiseAnew(dev)];
  expect(again.stacks).toEqual(first.stacks);
  // Names of assets are hashes of their content.
  const assetsOf = (folder: string) => readdirSync(folder).filter((name) => name.startsWith('asset.'));
  expect(assetsOf(again.folder)).toEqual(assetsOf(first.folder));
  expect(assetsOf(first.folder).length).toBeGreaterThan(20);
});
