// Run `npm test` in this folder.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { compare } from './index.js';

const differences = (before, after) => compare({ before, after, key: 'id' });

test('order of rows and columns is no difference', () => {
  const { summary } = differences('id,a\n1,x\n2,y\n', 'a,id\r\ny,2\r\nx,1');
  assert.equal(summary, '0 added, 0 removed, 0 changed, 2 unchanged');
});

test('rows, cells and columns', () => {
  const found = differences('id,a,b\n1,x,\n2,y,\n3,z,', 'id,a,c\n2,Y,\n3,z,\n4,w,');
  assert.deepEqual([found.added, found.removed, found.unchanged], [['4'], ['1'], 1]);
  assert.deepEqual(found.changed, [{ key: '2', column: 'a', before: 'y', after: 'Y' }]);
  assert.deepEqual([found.columns_added, found.columns_removed], [['c'], ['b']]);
});

test('quoted cells, short rows and a byte order mark', () => {
  const { changed } = differences('\ufeffid,a\n1,"x, ""y""\nz"\n\n2', 'id,a\n1,x\n2,\n');
  assert.deepEqual(changed, [{ key: '1', column: 'a', before: 'x, "y"\nz', after: 'x' }]);
});

test('names of members that every object has are plain keys', () => {
  const { added, changed } = differences('id,__proto__\nconstructor,1', 'id,__proto__\nconstructor,2\n__proto__,3');
  assert.deepEqual([added, changed.length], [['__proto__'], 1]);
});

test('100,000 rows', () => {
  const table = `id,a\n${Array.from({ length: 100_000 }, (_, index) => `${index},x`).join('\n')}`;
  assert.equal(differences(table, table).unchanged, 100_000);
});

for (const [input, message] of [
  ['', /must be JSON/],
  ['null', /^key: must be/],
  ['{"key": "id"}', /^before: must be a table/],
  ['{"key": "id", "before": "\\n", "after": "id"}', /^before: must have a header/],
  ['{"key": "id", "before": "a,b", "after": "id"}', /^key: "id" is no column of before; it has a, b/],
  ['{"key": "id", "before": "id,a,a", "after": "id"}', /^before: the column "a" is there twice/],
  ['{"key": "id", "before": "id\\n1\\n1", "after": "id"}', /^before: id "1" is there twice/],
  ['{"key": "id", "before": "id,a\\n,1", "after": "id"}', /^before: row 2 has no id/],
  ['{"key": "id", "before": "id\\n1,2", "after": "id"}', /^before: row 2 has more cells/],
  ['{"key": "id", "before": "id\\n\\"1", "after": "id"}', /^before: row 2 has a quote/],
]) {
  test(`refuses ${input}`, () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['index.js'], {
      cwd: import.meta.dirname,
      input,
      encoding: 'utf8',
    });
    assert.deepEqual({ status, stderr }, { status: 1, stderr: '' });
    assert.match(JSON.parse(stdout).error, message);
  });
}
