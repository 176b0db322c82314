import { afterAll, expect, test } from 'vitest';
import { startLocalTarget } from '#test/helpers/platform.ts';
import { watchExamples } from './examples.ts';
import { record, recordedShapes, unrecorded, watchStoredShapes } from './stored-shapes.ts';
import { platformSuite } from './suite.ts';

const storedShapes = watchStoredShapes();
const target = await startLocalTarget({ PLATFORM_SANDBOX_MEMORY_MB: '256', PLATFORM_SANDBOX_DISK_MB: '32' });
const writeExamples = process.env.RECORD_EXAMPLES ? watchExamples(target.url) : undefined;
const { python, node } = target.interpreters;

platformSuite(() => target, { python: python !== undefined, node: node !== undefined });

test('nothing is stored in another form than the version of the data says: see core/base/data-versions.ts', () => {
  const shapes = storedShapes();
  expect(Object.keys(shapes).length).toBeGreaterThan(50);
  if (process.env.RECORD_SHAPES) record(shapes);
  expect(unrecorded(shapes, recordedShapes())).toEqual([]);
});

afterAll(async () => {
  await writeExamples?.();
  await target.close();
});
