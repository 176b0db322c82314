// Run `node --test` in this folder.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { releaseNotes } from './main.mts';

const bumpOf = (log: string) => releaseNotes({ log, version: '1.4.2' }).next_version;

test('the version follows from the commits', () => {
  assert.equal(bumpOf('fix: a'), '1.4.3');
  assert.equal(bumpOf('fix: a\nfeat: b'), '1.5.0');
  assert.equal(bumpOf('fix!: a\nfeat: b'), '2.0.0');
  assert.equal(releaseNotes({ log: 'fix: a' }).next_version, undefined);
});

test('hashes and branch names are not shown; merges and chores are left out', () => {
  const notes = releaseNotes({
    log: 'a1b2c3d (HEAD -> main) Add a page\r\nb1b2c3d Merge branch x\n\nc1b2c3d chore: y\n',
  });
  assert.deepEqual([notes.commits, notes.left_out], [3, 2]);
  assert.equal(notes.markdown, '## Next version\n\n### Other changes\n\n- Add a page');
});

test('a kind that is no kind is part of the subject', () => {
  assert.match(releaseNotes({ log: 'constructor: rename' }).markdown, /Other changes\n\n- Constructor: rename/);
});

test('subjects stay text', () => {
  const { markdown } = releaseNotes({ log: 'fix: <img src=x> [a](http://b) `c`' });
  assert.ok(markdown.includes('\\<img src=x\\> \\[a\\](http://b) \\`c\\`'));
});

test('only chores', () => {
  assert.match(releaseNotes({ log: 'ci: x' }).markdown, /No changes/);
});

for (const [input, message] of [
  ['', /must be JSON/],
  ['null', /^log: must be the text/],
  ['{"log": 5}', /^log: must be the text/],
  ['{"log": " \\n"}', /^log: must have at least one/],
  ['{"log": "a", "version": "v1"}', /^version: must be three/],
] as const) {
  test(`refuses ${input}`, () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['main.mts'], {
      cwd: import.meta.dirname,
      input,
      encoding: 'utf8',
    });
    assert.deepEqual({ status, stderr }, { status: 1, stderr: '' });
    assert.match(JSON.parse(stdout).error, message);
  });
}
