import { createHash, randomBytes } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Blobs } from '#core/ports/blobs.ts';
import type { SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { RunnerSession, runnerHealth } from '#runner/server/client.ts';
import { REUSE_HEADER } from '#runner/server/protocol.ts';
import { jobFor, type RunnerProcess } from '#test/helpers/runner.ts';
import { describeWhere } from '#test/helpers/test-where.ts';
import { zip } from '#test/helpers/zip.ts';
import { FIND_RUNNER, python, ran, type SandboxKind, specOf, tarOf } from './sandbox.ts';

type ReusedRunner = Pick<RunnerProcess, 'url' | 'ended' | 'kill'> & {
  /** Lines that the runner prints, if the harness knows them. */
  readonly lines?: RunnerProcess['lines'];
};

interface ReuseHarness {
  readonly start: () => Promise<ReusedRunner>;
  readonly blobs: Blobs;
  readonly linkTo: (key: string) => string;
  /**
   * Folders that the user of a session can write to, in a container that is the sandbox and whose runner has the same
   * user.
   * @default - sandboxes have their own namespaces
   */
  readonly writable?: readonly string[];
}

const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const KEY = keyOf('this kind');

/** Prints all files in folders that a session can write to, except those of the platform. */
const LIST_FILES = `import os
for top in '/home/user', '/tmp', '/dev/shm', '/dev/mqueue', '/layer':
    for folder, folders, files in os.walk(os.fsencode(top)):
        folders[:] = [name for name in folders if not name.startswith(b'platform-sandbox-')]
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            stat = os.lstat(path)
            print(ascii(path), oct(stat.st_mode), stat.st_uid)
`;

/** Creates files of every kind that is hard to list, to enter or to remove. */
const LITTER = `import ctypes, os, socket, stat
home = os.path.expanduser('~')
for name in ['.profile', '.bashrc', '.bash_profile', '.npmrc', '.netrc']:
    open(f'{home}/{name}', 'w').write('export POISONED=1; echo poisoned\\n')
site = f'{home}/.local/lib/python3.' + str(__import__('sys').version_info[1]) + '/site-packages'
os.makedirs(site)
open(site + '/sitecustomize.py', 'w').write('print("poisoned")\\n')
open(site + '/usercustomize.py', 'w').write('print("poisoned")\\n')
os.makedirs(f'{home}/node_modules/agent-platform-sdk')
open('/tmp/preload.so', 'wb').write(b'\\x7fELF')
tops = [top for top in (home, '/tmp', '/dev/shm') if os.access(top, os.W_OK)]
for top in tops:
    os.makedirs(f'{top}/closed/inner')
    open(f'{top}/closed/inner/x', 'w').close()
    os.link(f'{top}/closed/inner/x', f'{top}/linked')
    os.symlink('/etc', f'{top}/link')
    os.symlink('/layer', f'{top}/closed/link')
    os.mkfifo(f'{top}/fifo')
    socket.socket(socket.AF_UNIX).bind(f'{top}/socket')
    open(os.fsencode(top) + b'/\\xff\\xfe -rf\\n', 'w').close()
    open(f'{top}/.hidden', 'w').close()
    os.chmod(f'{top}/closed/inner', 0)
    os.chmod(f'{top}/closed', 0)
    open(f'{top}/shared', 'w').write('shared')
os.chdir('/tmp')
for depth in range(3000):
    os.mkdir('d' * 20)
    os.chdir('d' * 20)
try: os.open('/dev/mqueue/left', os.O_CREAT | os.O_RDWR)
except OSError: pass
`;

/** Leaves processes that outlive the command, and prints the port on which one of them listens. */
const HIDE = (name: string) => `import ctypes, os, signal, socket, sys, time
read, write = os.pipe()
def hide(work):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    ctypes.CDLL(None).prctl(15, b'init', 0, 0, 0)
    for fd in 0, 1, 2: os.dup2(os.open('/dev/null', os.O_RDWR), fd)
    work()
def listen():
    tcp = socket.socket(); tcp.bind(('127.0.0.1', 0)); tcp.listen()
    local = socket.socket(socket.AF_UNIX); local.bind('\\0${name}'); local.listen()
    os.write(write, str(tcp.getsockname()[1]).encode())
    while True: time.sleep(60)
def hold():
    file = open('/tmp/deleted', 'w+b'); file.write(b'x' * 1000000); file.flush(); os.unlink('/tmp/deleted')
    os.write(write, b' ')
    while True: time.sleep(60)
def beat():
    # As a job of cron would.
    while True:
        for top in '/tmp', '/home/user', '/dev/shm':
            try: open(top + '/${name}', 'w').close()
            except OSError: pass
        time.sleep(0.005)
def breed():
    # Never the same process for long.
    while True:
        if os.fork(): os._exit(0)
        time.sleep(0.002)
for work in beat, breed, hold, listen: hide(work)
while len(said := os.read(write and read, 20).strip()) == 0: pass
print(said.decode())
`;

/** Prints the remains of {@link HIDE}. */
const SEEK = (name: string, port: string) => `import os, socket, time
for family, address in (socket.AF_INET, ('127.0.0.1', ${port})), (socket.AF_UNIX, '\\0${name}'):
    try:
        socket.socket(family).connect(address)
        print('connected to', address)
    except OSError: pass
time.sleep(0.1)
for top in '/tmp', '/home/user', '/dev/shm':
    if os.path.exists(top + '/${name}'): print('a file in', top)
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        if b'${name}' in open(f'/proc/{pid}/cmdline', 'rb').read() and int(pid) != os.getpid(): print('process', pid)
    except OSError: pass
`;

/**
 * Isolation of two sessions of one runner: the second session finds the same state as the first, whatever the first
 * did, or the runner has ended.
 */
export function reuseConformance(
  setUp: () => Promise<ReuseHarness>,
  { isFunction = false, isContainer = isFunction }: SandboxKind = {},
): void {
  describe('a further session', { timeout: 120_000 }, () => {
    let harness: ReuseHarness;
    const runners: ReusedRunner[] = [];
    beforeAll(async () => {
      harness = await setUp();
      await harness.blobs.put('bundles/reused.zip', zip([{ name: 'main.py', content: 'print("bundle")\n' }]));
      await harness.blobs.put('layers/reused.tar.gz', tarOf({ 'python/layered.py': 'print("layer")\n' }));
    });
    afterEach(async () => {
      await Promise.all(runners.splice(0).map((runner) => runner.kill()));
    });
    const start = async () => {
      const runner = await harness.start();
      runners.push(runner);
      return runner;
    };
    const open = (
      { url }: ReusedRunner,
      spec: Partial<SandboxSpec> = {},
      reuse: string | undefined = KEY,
    ): Promise<RunnerSession> =>
      RunnerSession.open(
        { baseUrl: url },
        jobFor(
          specOf({ bundle: 'bundles/reused.zip', layer: 'layers/reused.tar.gz', egress: 'open', ...spec }),
          harness.linkTo,
        ),
        { reuse },
      );
    /** Runs the attack `first` in one session, and the check `second` in a session of the same runner. */
    const inTurn = async <Seen>(
      first: (session: SandboxSession) => Promise<Seen>,
      second: (session: SandboxSession, seen: Seen) => Promise<unknown>,
    ) => {
      const runner = await start();
      const session = await open(runner);
      const seen = await first(session);
      await session.close();
      const next = await open(runner);
      await second(next, seen);
      await next.close();
    };

    test('has the place to itself, and none of its own is found by the one after it', async () => {
      const runner = await start();
      for (const text of ['one', 'two', 'three']) {
        const session = await open(runner, { env: { OWN: text } });
        const { out } = await ran(
          session,
          `cat ~/mine /tmp/mine /dev/shm/mine 2>/dev/null; echo $OWN | tee ~/mine /tmp/mine /dev/shm/mine; python3 main.py; python3 -c 'import layered'`,
        );
        expect(out).toBe(`${text}\nbundle\nlayer\n`);
        await session.close();
        expect((await runnerHealth({ baseUrl: runner.url }, 5_000)).state).toBe('idle');
      }
    });

    test('finds no file, whatever its kind, name, depth and mode', async () => {
      await inTurn(
        async (session) => {
          const { out } = await python(session, LIST_FILES);
          const { exit, err } = await python(session, LITTER);
          expect(exit, err).toMatchObject({ reason: 'exited', exitCode: 0 });
          return out;
        },
        async (session, before) => {
          expect((await python(session, LIST_FILES)).out).toBe(before);
          expect((await ran(session, 'bash -lc true; python3 main.py; env')).out).not.toContain('oison');
        },
      );
    });

    test('finds no process, however it hides, and nothing that processes held', async () => {
      const name = `mischief-${randomBytes(4).toString('hex')}`;
      await inTurn(
        async (session) => {
          const { out, err } = await python(session, HIDE(name), { timeoutMs: 20_000 });
          expect(out, err).toMatch(/^\d+\n$/);
          return out.trim();
        },
        async (session, port) => expect(await python(session, SEEK(name, port))).toMatchObject({ out: '', err: '' }),
      );
    });

    test('has the bundle and the layer as they were published', async () => {
      await inTurn(
        (session) =>
          ran(
            session,
            `chmod -R u+w ~/agent /layer; echo 'print("changed")' | tee main.py ~/agent/os.py /layer/python/layered.py /layer/python/json.py
mv ~/agent ~/away; ln -s /tmp ~/agent; chmod 0 ~ /layer; true`,
            { cwd: '/tmp' },
          ),
        async (session) => {
          const { out } = await ran(
            session,
            `cd ~/agent; python3 main.py; python3 -c 'import layered, json, os'; ls -A ~ ~/agent /layer/python; touch new main.py /layer/new 2>&1 | wc -l`,
          );
          expect(out).toMatch(/^bundle\nlayer\n/);
          expect(out).not.toMatch(/changed|away|os\.py|json\.py/);
          expect(out).toMatch(/\n1\n$/);
        },
      );
    });

    test('has its own variables and limits, and none of the last one', async () => {
      const look = `ulimit -a; ulimit -Ha; nice; umask; cat /proc/self/limits; grep -E '^(Cpus_allowed|NoNewPrivs|Seccomp|Cap|Sig(Blk|Ign))' /proc/self/status; env | grep -v ^SECRET | sort`;
      const runner = await start();
      const first = await open(runner, { env: { SECRET_A: 'hush-a' } });
      const before = (await ran(first, look)).out;
      await ran(first, 'renice 10 $$; umask 0; export LEFT=1; ulimit -n 10; ulimit -u 5');
      await first.close();
      const second = await open(runner, { env: { SECRET_B: 'hush-b' } });
      expect((await ran(second, look)).out).toBe(before);
      expect((await ran(second, 'env | grep -E "SECRET|LEFT"')).out).toBe('SECRET_B=hush-b\n');
    });

    test('is not begun by a program of the last one', async () => {
      const runner = await start();
      const session = await open(runner);
      const own = JSON.stringify(jobFor(specOf(), harness.linkTo));
      const port = new URL(runner.url).port;
      const { out } = await python(
        session,
        `import os, socket, time
body = ${JSON.stringify(own)}
request = ('POST /session HTTP/1.1\\r\\nHost: x\\r\\n${REUSE_HEADER}: ${KEY}\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(body), body)).encode()
if not os.fork():
    for fd in 0, 1, 2: os.dup2(os.open('/dev/null', os.O_RDWR), fd)
    kept = []
    while True:
        try:
            s = socket.create_connection(('127.0.0.1', ${port}), 1)
            s.sendall(request)
            kept = kept[-200:] + [s]
        except OSError: pass
time.sleep(0.2)
print('begun')
`,
      );
      expect(out).toBe('begun\n');
      await session.close();
      expect((await runnerHealth({ baseUrl: runner.url }, 5_000)).state).toBe('idle');
      const next = await open(runner);
      expect((await ran(next, 'echo on')).out).toBe('on\n');
    });

    test('is for one of two clients that race, and for no other kind', async () => {
      const runner = await start();
      await (await open(runner)).close();
      await expect(open(runner, {}, keyOf('another kind'))).rejects.toMatchObject({ code: 'CLAIMED' });
      const tries = await Promise.allSettled([1, 2, 3].map(() => open(runner)));
      expect(tries.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    });

    test('does not answer to the token of the last one', async () => {
      const runner = await start();
      const first = await open(runner);
      await first.close();
      const second = await open(runner);
      await second.writeFile('mine', Buffer.from('x'));
      expect((await ran(first, 'rm ~/mine')).exit.reason).toBe('sandbox_lost');
      expect((await ran(second, 'cat ~/mine')).out).toBe('x');
    });

    test.each<[string, (session: SandboxSession) => Promise<unknown>]>([
      ['was told to stop', (session) => ran(session, 'trap "" TERM; sleep 1000', { timeoutMs: 100 })],
      ['printed too much', (session) => ran(session, 'yes', { maxOutputBytes: 1000 })],
      ['was given up by its caller', (session) => ran(session, 'sleep 1000', { signal: AbortSignal.timeout(200) })],
      ['used too much memory', (session) => python(session, 'x = b"x" * (2 << 30)')],
    ])('does not come after one that %s', async (_, act) => {
      const runner = await start();
      const session = await open(runner);
      await act(session);
      await session.close();
      expect(await runner.ended).toBe(0);
    });

    test('does not come after one without a key, nor after one that is closed while it runs', async () => {
      const single = await start();
      const session = await RunnerSession.open({ baseUrl: single.url }, jobFor(specOf(), harness.linkTo));
      await session.close();
      expect(await single.ended).toBe(0);
      const busy = await start();
      const other = await open(busy);
      const events = other.exec({ command: 'echo on; sleep 1000', timeoutMs: 60_000 });
      await events.next();
      await other.close();
      expect(await busy.ended).toBe(0);
    });

    // Other sandboxes have their own namespaces.
    describeWhere(isContainer)('in a container', () => {
      test('can write only where everything is removed', async () => {
        const { out } = await python(
          await open(await start()),
          `import os, stat
def look(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode) or stat.S_ISCHR(mode): return
    if path != '/dev/pts' and os.access(path, os.W_OK): return print(path)
    if path != '/dev/pts' and os.lstat(path).st_uid == os.getuid():
        try:
            os.chmod(path, mode)
            return print(path)
        except OSError: pass
    if stat.S_ISDIR(mode) and path not in ('/proc', '/sys', '/dev/pts'):
        try: names = os.listdir(path)
        except OSError: return
        for name in names: look(os.path.join(path, name))
look('/')
`,
        );
        // Layers are made read-only.
        expect(out.trim().split('\n').sort()).toEqual(harness.writable);
      });

      test.each([
        ['limits', 'Max open files', 'import resource; resource.prlimit(runner, resource.RLIMIT_NOFILE, (100, 100))'],
        ['priority', 'thread', 'import os; os.setpriority(os.PRIO_PROCESS, runner, 10)'],
        ['priority by its user', 'thread', 'import os; os.setpriority(os.PRIO_USER, os.getuid(), 10)'],
        ['policy', 'thread', 'import os; os.sched_setscheduler(runner, os.SCHED_BATCH, os.sched_param(0))'],
        ['processors', 'thread', 'import os; os.sched_setaffinity(runner, {min(os.sched_getaffinity(0))})'],
        [
          'priority at the disk',
          'thread',
          `import ctypes, platform; ctypes.CDLL(None).syscall(251 if platform.machine() == 'x86_64' else 30, 1, runner, 3 << 13)`,
        ],
      ])('does not come after one that changed the %s of the runner', async (_, found, program) => {
        const runner = await start();
        const session = await open(runner);
        expect((await python(session, FIND_RUNNER + program)).err).toBe('');
        await session.close();
        expect(await runner.ended).toBe(0);
        if (runner.lines) expect(runner.lines.join('\n')).toContain(`the container has changed: ${found}`);
      });

      test('does not come after one that ended the executor', async () => {
        const runner = await start();
        const session = await open(runner);
        expect((await ran(session, 'kill -9 -1')).exit.reason).toBe('sandbox_lost');
        await session.close();
        // In a Lambda function the runner ends with it, and Lambda starts another one.
        expect(await runner.ended).toBe(isFunction ? 137 : 0);
      });

      test('finds the runner without a debugger', async () => {
        const look = `import os, signal, socket, time
os.kill(runner, signal.SIGUSR1)
time.sleep(0.3)
try: print(socket.create_connection(('127.0.0.1', 9229), 1))
except OSError as e: print(type(e).__name__)
`;
        const see = async (session: SandboxSession) =>
          expect((await python(session, FIND_RUNNER + look)).out).toBe('ConnectionRefusedError\n');
        await inTurn(see, see);
      });
    });
  });
}
