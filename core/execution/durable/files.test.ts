import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import type { Sandbox, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { python, ran, specOf } from '#test/conformance/sandbox.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { zip } from '#test/helpers/zip.ts';
import { markFiles, restoreSnapshot, type Snapshot, type SnapshotMark, takeSnapshot } from './files.ts';
import { ARCHIVE_END, type ArchiveEntry, entryHeader, padding } from './files-archive.ts';

const MB = 1024 ** 2;
const maxBytes = 50 * MB;
const root = mkdtempSync(join(tmpdir(), 'snapshots-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
const bundle = 'bundles/snapshots.zip';
await blobs.put(
  bundle,
  zip([
    { name: 'main.py', content: 'print(1)\n' },
    { name: 'data/a.txt', content: 'a\n' },
    { name: 'data/b.txt', content: 'b\n' },
    { name: 'large/c.txt', content: 'c'.repeat(100_000) },
  ]),
);
const otherBundle = 'bundles/other.zip';
await blobs.put(
  otherBundle,
  zip([
    { name: 'main.py', content: 'print(2)\n' },
    { name: 'data/a.txt', content: 'new\n' },
  ]),
);
const [isolated, unsandboxed] = await Promise.all(
  (['auto', 'unsandboxed'] as const).map((kind) =>
    createLocalSandbox({ cacheFolder: join(root, kind), blobs, kind, prestart: kind === 'auto' ? 2 : 0 }),
  ),
);
const { problem: noSandbox } = await isolated!.status();

const sessions: SandboxSession[] = [];
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.close()));
});
afterAll(async () => {
  await Promise.all([isolated!.close(), unsandboxed!.close()]);
  rmSync(root, { recursive: true, force: true });
});

async function open(sandbox: Sandbox, more: Partial<SandboxSpec> = { bundle }): Promise<SandboxSession> {
  const session = await sandbox.open(specOf(more));
  sessions.push(session);
  return session;
}

async function opened(sandbox: Sandbox, more?: Partial<SandboxSpec>) {
  const session = await open(sandbox, more);
  const marked = await markFiles(session);
  if ('problem' in marked) throw new Error(marked.problem);
  return { session, mark: marked.mark };
}

async function taken(session: SandboxSession, since?: SnapshotMark): Promise<Snapshot> {
  const found = await takeSnapshot(session, { maxBytes, since });
  if (!('content' in found)) throw new Error(JSON.stringify(found));
  return found;
}

const problemOf = (found: object): string =>
  'problem' in found ? String(found.problem) : `none: ${JSON.stringify(found)}`;

/** Paths of the entries, as GNU tar reads them. */
const listed = ({ content }: Pick<Snapshot, 'content'>): string[] => {
  const { stdout, stderr, status } = spawnSync('tar', ['-tf', '-', '--warning=no-unknown-keyword'], {
    input: zstdDecompressSync(content),
    encoding: 'utf8',
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  return stdout.split('\n').filter(Boolean);
};

/** Python that prints all below the home and `tool_output`, with everything that a snapshot keeps. */
const SHOW = `import hashlib, json, os
shown = {}
for name, top in (('home', os.environ['HOME']), ('output', os.path.join(os.environ['TMPDIR'], 'tool_output'))):
    for folder, folders, files in os.walk(os.fsencode(top)):
        for entry in folders + files:
            path = os.path.join(folder, entry)
            s = os.lstat(path)
            kind = s.st_mode & 0o170000
            content = os.readlink(path).decode('latin1') if kind == 0o120000 else hashlib.md5(open(path, 'rb').read()).hexdigest() if kind == 0o100000 else ''
            shown[name + path[len(top):].decode('latin1')] = [oct(s.st_mode), s.st_mtime_ns, s.st_nlink if kind == 0o100000 else 0, content]
shown.pop('home/agent', None)
print(json.dumps(shown, sort_keys=True))
`;
async function shownIn(session: SandboxSession): Promise<Record<string, unknown[]>> {
  const { out, err } = await python(session, SHOW, { cwd: '/' });
  expect(err).toBe('');
  return JSON.parse(out);
}

const WORK = `cd "$HOME"
mkdir -p deep/er "$TMPDIR/tool_output" empty
echo one > deep/er/1.txt; chmod 640 deep/er/1.txt; touch -d '2001-02-03 04:05:06.123456789' deep/er/1.txt
echo run > tool.sh; chmod 4755 tool.sh
ln deep/er/1.txt hard; ln -s deep/er/1.txt soft; ln -s /usr/bin/env outside; ln -s nowhere dangling
printf x > './-rf'; printf y > "$(printf 'new\\nline')"; printf z > "$(printf 'bad-\\377')"
printf q > "$(printf 'l%.0s' $(seq 200))"
head -c 300000 /dev/urandom > random; : > nothing; truncate -s 1000000 sparse
echo output > "$TMPDIR/tool_output/1-1.txt"
echo 'print(2)' > agent/main.py; rm agent/data/a.txt; echo n > agent/data/n.txt
chmod 555 empty; touch -d @1000000000 deep/er deep
`;

describe.each([
  ['the sandbox of this machine', isolated!, noSandbox],
  ['no sandbox', unsandboxed!, undefined],
])('with %s', (_, sandbox, problem) => {
  const isIsolated = sandbox === isolated;

  describe.skipIf(problem !== undefined)(problem ?? 'that works', () => {
    test('a snapshot restores files, links, permissions, times and deletions', async () => {
      const { session, mark } = await opened(sandbox);
      expect(await takeSnapshot(session, { maxBytes, since: mark })).toEqual({ unchanged: true });
      expect((await ran(session, WORK, { cwd: '/' })).err).toBe('');
      const snapshot = await taken(session, mark);
      expect(snapshot.leftOut).toBeUndefined();
      expect(listed(snapshot)).toEqual(
        expect.arrayContaining(['home/user/agent/main.py', 'home/user/-rf', 'tmp/tool_output/1-1.txt']),
      );
      expect(listed(snapshot).join()).not.toMatch(/c\.txt|b\.txt/);
      expect(await takeSnapshot(session, { maxBytes, since: snapshot.mark })).toEqual({ unchanged: true });
      const before = await shownIn(session);
      expect(before).toMatchObject({ 'home/deep/er/1.txt': ['0o100640', 981173106123456800, 2, expect.any(String)] });
      expect(before['home/agent/data/a.txt']).toBeUndefined();
      before['home/tool.sh']![0] = '0o100755';

      const second = await open(sandbox);
      const restored = await restoreSnapshot(second, snapshot.content, { maxBytes });
      if (!('mark' in restored)) throw new Error(restored.problem);
      const after = await shownIn(second);
      // Files of the bundle have the time at which they were unpacked.
      for (const path of ['home/agent/data/b.txt', 'home/agent/large/c.txt', 'home/agent/large']) {
        before[path]![1] = after[path]![1]!;
      }
      expect(after).toEqual(before);

      // And once more from there.
      expect(await takeSnapshot(second, { maxBytes, since: restored.mark })).toEqual({ unchanged: true });
      await ran(second, 'rm "$HOME/hard"; echo 3 > "$HOME/3"; echo 3 > "$HOME/agent/3"', { cwd: '/' });
      const next = await taken(second, restored.mark);
      expect(listed(next).join()).not.toMatch(/c\.txt|b\.txt/);
      const third = await open(sandbox);
      expect(await restoreSnapshot(third, next.content, { maxBytes })).toHaveProperty('mark');
      const last = await shownIn(third);
      expect(Object.keys(last)).toEqual(Object.keys(await shownIn(second)));
      expect(last['home/agent/data/a.txt']).toBeUndefined();
    });

    test('only a change makes a new snapshot', async () => {
      const { session, mark } = await opened(sandbox);
      await ran(session, 'mkdir -p "$TMPDIR/tool_output"; echo 12 > "$HOME/a"; echo 12 > "$HOME/b"', { cwd: '/' });
      let since = (await taken(session, mark)).mark;
      for (const change of [
        'echo 34 > a; touch -d @5 a',
        'chmod 600 a',
        'mv a c',
        'rm b',
        'mkdir d',
        'ln -s x y',
        'echo 1 >> agent/main.py',
        'echo 1 > "$TMPDIR/tool_output/1"',
      ]) {
        expect(await takeSnapshot(session, { maxBytes, since }), change).toEqual({ unchanged: true });
        await ran(session, `cd "$HOME"; cat * > /dev/null 2>&1; ${change}`, { cwd: '/' });
        since = (await taken(session, since)).mark;
      }
    });

    test('without a mark, the files of the bundle are taken too', async () => {
      const { session } = await opened(sandbox);
      await ran(session, 'rm "$HOME/agent/main.py"', { cwd: '/' });
      const snapshot = await taken(session);
      expect(listed(snapshot)).toContain('home/user/agent/large/c.txt');
      const next = await open(sandbox);
      expect(await restoreSnapshot(next, snapshot.content, { maxBytes })).toHaveProperty('mark');
      expect((await ran(next, 'ls "$HOME/agent"', { cwd: '/' })).out).toBe('data\nlarge\n');
    });

    test('a bundle whose folder was emptied is empty again', async () => {
      const { session, mark } = await opened(sandbox);
      await ran(session, 'rm -rf "$HOME/agent" "$HOME/agent/"*', { cwd: '/' });
      const snapshot = await taken(session, mark);
      const next = await open(sandbox);
      expect(await restoreSnapshot(next, snapshot.content, { maxBytes })).toHaveProperty('mark');
      expect((await ran(next, 'ls -A "$HOME/agent"', { cwd: '/' })).out).toBe('');
    });

    test('in a sandbox with another bundle, the files of that bundle stay, and the others come back', async () => {
      const { session, mark } = await opened(sandbox);
      const work =
        'cd "$HOME"; echo old > agent/main.py; rm agent/data/a.txt; echo 1 > agent/own; echo 2 > agent/data/own; echo 3 > kept';
      await ran(session, work, { cwd: '/' });
      const snapshot = await taken(session, mark);
      const next = await open(sandbox, { bundle: otherBundle });
      const restored = await restoreSnapshot(next, snapshot.content, { maxBytes, isOtherBundle: true });
      if (!('mark' in restored)) throw new Error(restored.problem);
      const { out } = await ran(next, 'cd "$HOME"; cat agent/main.py agent/data/* agent/own kept; ls agent', {
        cwd: '/',
      });
      expect(out).toBe('print(2)\nnew\n2\n1\n3\ndata\nmain.py\nown\n');
      expect(await takeSnapshot(next, { maxBytes, since: restored.mark })).toEqual({ unchanged: true });
    });

    // Without isolation, processes end with their command.
    testWhere(isIsolated)('processes of tools keep running, also those that change the files meanwhile', async () => {
      const { session, mark } = await opened(sandbox);
      await ran(
        session,
        `cd "$HOME"; (i=0; while :; do i=$((i + 1)); echo $i > count; head -c $((i % 50))000 /dev/zero > grows; mv grows moved; ln -sfn / swapped; rm swapped; mkdir -p swapped; rmdir swapped; done) > /dev/null 2>&1 & echo`,
        { cwd: '/' },
      );
      for (let time = 0; time < 4; time++)
        expect(await takeSnapshot(session, { maxBytes, since: mark })).toHaveProperty('content');
      const { out } = await ran(session, 'cat "$HOME/count"; sleep 0.3; cat "$HOME/count"', { cwd: '/' });
      const [before, after] = out.split('\n').map(Number);
      expect(after).toBeGreaterThan(before!);
    });

    testWhere(isIsolated)('what cannot be kept is left out, and named if it is a file', async () => {
      const { session, mark } = await opened(sandbox);
      const program = `import os, socket
os.chdir(os.environ['HOME'])
os.mkfifo('pipe')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
open('kept', 'w').write('kept')
for i in range(60):
    os.mkdir('n' * 200); os.chdir('n' * 200)
open('deepest', 'w').write('x')
os.chdir(os.environ['HOME'])
open('secret', 'w').write('x'); os.chmod('secret', 0)
os.mkdir('closed'); os.chmod('closed', 0)
`;
      expect((await python(session, program, { cwd: '/' })).err).toBe('');
      const snapshot = await taken(session, mark);
      expect(snapshot.leftOut).toMatch(
        /^\d+ files? (or|and) folders? (is|are) not in the snapshot, because .* The first one is "home\/user\//,
      );
      const next = await open(sandbox);
      const restored = await restoreSnapshot(next, snapshot.content, { maxBytes });
      expect(restored).toHaveProperty('mark');
      expect((await ran(next, 'cd "$HOME"; cat kept; ls pipe socket secret', { cwd: '/' })).out).toBe('kept');
      await ran(next, 'chmod 700 "$HOME/closed"', { cwd: '/' });
    });
  });
});

describe.skipIf(noSandbox !== undefined)('a snapshot is refused', () => {
  test('if the files are too large, with their size', async () => {
    const { session, mark } = await opened(isolated!);
    await ran(session, 'cd ~; head -c 3000000 /dev/urandom > a; truncate -s 60M sparse');
    expect(problemOf(await takeSnapshot(session, { maxBytes: 2 * MB, since: mark }))).toMatch(
      /^The files that tools have written take 62\.9 MB, and a snapshot holds at most 2 MB\. Delete /,
    );
    await ran(session, 'rm ~/sparse ~/a; seq 1 1000 > ~/small');
    expect(await takeSnapshot(session, { maxBytes: 2 * MB, since: mark })).toHaveProperty('content');
  });

  test('if there are too many files', async () => {
    const { session, mark } = await opened(isolated!, { limits: { ...specOf().limits, diskBytes: 1024 * MB } });
    const { err } = await python(
      session,
      `import os
os.chdir(os.environ['HOME'])
os.mkdir('many'); os.chdir('many')
open('f', 'w').close()
for i in range(200_001): os.link('f', str(i))
`,
    );
    expect(err).toBe('');
    expect(problemOf(await takeSnapshot(session, { maxBytes, since: mark }))).toMatch(
      /^The sandbox holds more than 200,000 files and folders/,
    );
  });

  test('if it takes too long, is cancelled, or the sandbox is gone', async () => {
    const { session, mark } = await opened(isolated!);
    await ran(session, 'head -c 40M /dev/urandom > ~/a');
    expect(problemOf(await takeSnapshot(session, { maxBytes, since: mark, timeoutMs: 1 }))).toMatch(
      /took longer than 0.001 seconds/,
    );
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('cancelled')), 5);
    await expect(takeSnapshot(session, { maxBytes, since: mark, signal: stop.signal })).rejects.toThrow('cancelled');
    await session.close();
    expect(await takeSnapshot(session, { maxBytes })).toMatchObject({
      problem: expect.stringContaining('it is gone'),
      isLost: true,
    });
  });

  test('if a hostile process ends it', async () => {
    const { session } = await opened(isolated!);
    await ran(
      session,
      'head -c 40M /dev/zero > ~/a; (while :; do pkill -9 perl || killall -9 perl; done) > /dev/null 2>&1 &',
    );
    const found = await takeSnapshot(session, { maxBytes });
    if (!('content' in found)) expect(problemOf(found)).toMatch(/^The sandbox did not finish its work on a snapshot: /);
    expect((await ran(session, 'echo usable')).out).toBe('usable\n');
  });
});

interface Member extends Partial<ArchiveEntry> {
  readonly content?: string;
}
const archiveOf = (members: readonly Member[]): Buffer =>
  zstdCompressSync(
    Buffer.concat([
      ...members.flatMap(({ content = '', ...entry }) => [
        entryHeader({
          type: 'file',
          path: 'home/user/x',
          mode: 0o644,
          modifiedAt: '1',
          size: content.length,
          ...entry,
        }),
        Buffer.from(content),
        padding(content.length),
      ]),
      ARCHIVE_END,
    ]),
  );

describe.skipIf(noSandbox !== undefined)('an archive that anybody may have made', () => {
  const kept = { path: 'home/user/kept', content: 'kept' };
  test.each<[string, RegExp, Member[]]>([
    ['leaves by an absolute path', /path that is not allowed/, [{ path: '/tmp/evil' }]],
    ['leaves by ..', /path that is not allowed/, [{ path: 'home/user/../../tmp/evil' }]],
    ['lies elsewhere', /path that is not allowed/, [{ path: 'tmp/evil' }]],
    ['lies beside a folder', /path that is not allowed/, [{ path: 'tmp/tool_outputs' }]],
    ['is the home', /path that is not allowed/, [{ path: 'home/user', type: 'folder' }]],
    ['replaces a folder of its own', /must be a folder/, [{ path: 'tmp/tool_output', type: 'link', target: '/etc' }]],
    [
      'writes below a link',
      /below an entry that is no folder/,
      [{ type: 'link', target: '/tmp' }, { path: 'home/user/x/evil' }],
    ],
    [
      'replaces a parent by a link',
      /folder of an earlier/,
      [{ path: 'home/user/x/y' }, { type: 'link', target: '/tmp' }],
    ],
    ['has a path twice', /is there twice/, [{}, { type: 'link', target: '/tmp/evil' }, {}]],
    ['links to a file elsewhere', /link to no earlier file/, [{ type: 'hard link', target: '/etc/passwd' }]],
    [
      'links to a link',
      /link to no earlier file/,
      [
        { type: 'link', target: '/etc/passwd' },
        { path: 'home/user/y', type: 'hard link', target: 'home/user/x' },
      ],
    ],
    ['removes elsewhere', /wrong names/, [{ type: 'folder', names: '/../..' }]],
    ['has no time', /no time/, [{ modifiedAt: 'now' }]],
    ['has a path with NUL', /path that is not allowed/, [{ path: 'home/user/a\0b' }]],
  ])('that %s', async (_, problem, members) => {
    const session = await open(isolated!);
    const found = await restoreSnapshot(session, archiveOf([kept, ...members]), { maxBytes });
    expect(problemOf(found)).toMatch(/^The snapshot is damaged: .* Nothing of it was restored\.$/);
    expect(problemOf(found)).toMatch(problem);
    expect((await ran(session, 'ls -A ~ /tmp | grep -v uploads; ls ~/kept')).out).not.toMatch(/kept|evil/);
  });

  test('that is damaged, cut, too large or of another kind', async () => {
    const session = await open(isolated!);
    const good = archiveOf([kept, { content: 'x'.repeat(1_000_000) }]);
    const flipped = Buffer.from(good);
    flipped[flipped.length >> 1]! ^= 0xff;
    const device = zstdDecompressSync(archiveOf([{}]));
    device[512 + 512 + 512 + 156 - 512] = 0x33;
    const bad = [
      flipped,
      good.subarray(0, -10),
      good.subarray(0, good.length >> 1),
      Buffer.from('no archive'),
      Buffer.alloc(0),
      zstdCompressSync(Buffer.alloc(511)),
      zstdCompressSync(device),
      zstdCompressSync(Buffer.concat([zstdDecompressSync(good), Buffer.from('more')])),
      zstdCompressSync(Buffer.alloc(maxBytes + 1)),
    ];
    for (const content of bad) {
      expect(problemOf(await restoreSnapshot(session, content, { maxBytes }))).toMatch(
        /^The snapshot is damaged: .* Nothing of it was restored\.$/,
      );
    }
    expect((await ran(session, 'ls -A ~/..; ls ~/kept')).out).toBe('user\n');
    expect(await restoreSnapshot(session, good, { maxBytes })).toHaveProperty('mark');
    expect((await ran(session, 'cat ~/kept')).out).toBe('kept');
  });

  test('writes through no link that is in the sandbox already, and gives no set-user-id', async () => {
    const session = await open(isolated!);
    await ran(
      session,
      'mkdir /tmp/target; echo old > /tmp/target/file; ln -s /tmp/target ~/x; ln -s /tmp/target/file ~/y',
    );
    const content = archiveOf([
      { path: 'home/user/y', content: 'new', mode: 0o7755 },
      { path: 'home/user/z', type: 'link', target: '../../etc' },
    ]);
    expect(await restoreSnapshot(session, content, { maxBytes })).toHaveProperty('mark');
    expect((await ran(session, 'cat /tmp/target/file ~/y; stat -c %a ~/y; readlink ~/z')).out).toBe(
      'old\nnew755\n../../etc\n',
    );
    expect(problemOf(await restoreSnapshot(session, archiveOf([{ path: 'home/user/x/file' }]), { maxBytes }))).toMatch(
      /could not be written, so that only a part of it was restored: home\/user\/x\/file: home\/user\/x is not a folder/,
    );
    expect((await ran(session, 'cat /tmp/target/file')).out).toBe('old\n');
  });

  test('that the disk cannot hold is said to be restored in part', async () => {
    const session = await open(isolated!, { limits: { ...specOf().limits, diskBytes: 8 * MB } });
    const content = archiveOf([kept, { content: 'x'.repeat(30 * MB) }]);
    expect(problemOf(await restoreSnapshot(session, content, { maxBytes }))).toMatch(
      /only a part of it was restored: home\/user\/x: /,
    );
    expect((await ran(session, 'rm ~/x; cat ~/kept')).out).toBe('kept');
  });
});

test.skipIf(noSandbox !== undefined)('a file that takes several commands is restored whole', async () => {
  const { session, mark } = await opened(isolated!);
  await ran(
    session,
    'head -c 20000000 /dev/urandom > ~/large; chmod 400 ~/large; for i in $(seq 200); do echo $i > ~/$i; done',
  );
  const sums = async (in_: SandboxSession) =>
    (await ran(in_, 'cd ~; md5sum large; stat -c "%a %y" large; cat [0-9]*| md5sum')).out;
  const { content } = await taken(session, mark);
  const next = await open(isolated!);
  expect(await restoreSnapshot(next, content, { maxBytes })).toHaveProperty('mark');
  expect(await sums(next)).toBe(await sums(session));
});
