import { expect, test } from 'vitest';
import { fingerprintOf, recordedShapes } from '#test/e2e/stored-shapes.ts';
import { DATA_VERSION, DATA_VERSIONS } from './data-versions.ts';

test('versions are numbered from 1 without gaps, and say what changes and how data gets there', () => {
  expect(DATA_VERSIONS.map(({ version }) => version)).toEqual(DATA_VERSIONS.map((_, index) => index + 1));
  expect(DATA_VERSION).toBe(DATA_VERSIONS.length);
  for (const { platform, changes, migration } of DATA_VERSIONS) {
    expect(platform).toMatch(/^\d+\.\d+\.\d+$/);
    for (const text of [changes, migration]) expect(text).toMatch(/^[A-Z].+\.$/s);
  }
});

test('the shapes of what is stored are those of the newest version', () => {
  // If they differ, add a version that describes the change and the migration. The last version may be edited until its
  // platform is released.
  expect(DATA_VERSIONS.at(-1)!.shapes).toBe(fingerprintOf(recordedShapes()));
  expect(fingerprintOf({ ...recordedShapes(), 'main NEW#* / META': ['id string'] })).not.toBe(
    DATA_VERSIONS.at(-1)!.shapes,
  );
});
