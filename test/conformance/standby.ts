import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Blobs } from '#core/ports/blobs.ts';
import type { ExecRequest, Sandbox, SandboxSpec } from '#core/ports/sandbox.ts';
import { zip } from '#test/helpers/zip.ts';
import { type Ran, ran, specOf } from './sandbox.ts';

const MB = 1024 * 1024;

/**
 * Prints all that a program can see of its start, except what differs between any two processes. The watcher sets its
 * nice value at some moment, by how many of its processes run.
 */
const SHOW = `import gc, io, json, locale, os, resource, signal, sys, threading, warnings, __main__
modules = sorted(sys.modules)
status = [line for line in open('/proc/self/status') if line.split(':')[0] in
    ('Umask', 'Uid', 'Gid', 'Groups', 'Seccomp', 'NoNewPrivs', 'CapEff', 'CapBnd', 'SigBlk', 'SigIgn', 'SigCgt', 'Threads', 'FDSize')]
shown = dict(
    name=__name__, file=__file__, spec=repr(__spec__), loader=type(__loader__).__name__, cached=repr(__cached__) if '__cached__' in globals() else None,
    doc=__doc__, package=repr(__package__), builtins=__builtins__.__name__, names=sorted(globals()), main=__main__.__file__,
    argv=sys.argv, original=sys.orig_argv, path=sys.path, flags=repr(sys.flags), executable=sys.executable, prefix=sys.prefix,
    options=sys._xoptions, warnoptions=sys.warnoptions, filters=repr(warnings.filters), modules=modules, hooks=repr([type(f) for f in sys.path_hooks]),
    environment=list(os.environ.items()), children=os.popen('env; echo "$0"; ls -l /proc/self/fd | wc -l').read().split('\\n'),
    streams=[(s.encoding, s.errors, s.line_buffering, s.write_through, s.name, s.mode, s.isatty()) for s in (sys.stdin, sys.stdout, sys.stderr)],
    encodings=[sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()],
    folder=os.getcwd(), leads=os.getsid(0) == os.getpid() == os.getpgid(0), parent=os.getppid(), descriptors=sorted(os.listdir('/proc/self/fd')),
    limits=open('/proc/self/limits').read(), status=status, cgroup=open('/proc/self/cgroup').read(),
    command=open('/proc/self/cmdline').read(), program=os.readlink('/proc/self/exe'), handlers=[str(signal.getsignal(s)) for s in range(1, 32)],
    thread=[threading.current_thread() is threading.main_thread(), threading.active_count()], gc=[gc.get_threshold(), gc.isenabled()],
    depth=sys.getrecursionlimit(), frames=sys._getframe().f_back is None, given=sys.stdin.read(),
)
print(json.dumps(shown, indent=1))
`;

const SPAWN = `import multiprocessing, os, sys, __main__
def work(number):
    return [number, __main__.__file__, sys.argv, os.environ['GIVEN']]
if __name__ == '__main__':
    multiprocessing.set_start_method('spawn')
    with multiprocessing.Pool(2) as pool:
        print(pool.map(work, [1, 2]))
`;

interface Case {
  readonly program: string;
  readonly options?: string;
  readonly arguments?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly request?: Partial<ExecRequest>;
}

const CASES: Readonly<Record<string, Case>> = {
  'all that it can see': {
    program: SHOW,
    arguments: 'one --two 2',
    env: { GIVEN: 'é', EMPTY: '', LONG: 'x'.repeat(100_000) },
  },
  'unbuffered output': { program: `${SHOW}print(type(sys.stdout.buffer))`, options: '-u ' },
  'a traceback': { program: 'def inner():\n    raise ValueError("é")\n\ndef outer():\n    inner()\n\nouter()\n' },
  'an error with a cause': {
    program: 'try:\n    {}["x"]\nexcept KeyError as e:\n    raise RuntimeError("y") from e\n',
  },
  'a syntax error': { program: 'print("before")\nif True\n' },
  'a file that is missing': { program: '', arguments: 'x', options: 'absent/' },
  'an exit with a status': {
    program:
      'import atexit, sys\natexit.register(print, "last")\nprint("out")\nprint("err", file=sys.stderr)\nsys.exit(3)\n',
  },
  'an exit with text': { program: 'import sys\nsys.exit("text")\n' },
  'an exit at once': { program: 'import os\nprint("lost")\nos._exit(4)\n' },
  'its own signal': { program: 'import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n' },
  'a warning': { program: 'import warnings\nwarnings.warn("careful")\nwarnings.warn("old", DeprecationWarning)\n' },
  'bytes that are not UTF-8': {
    program: 'import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])\n',
    request: { stdin: Buffer.from([0xff, 0, 0xfe, 10]) },
  },
  'text that is not UTF-8': {
    program: 'import sys\nprint(sys.stdin.read())\n',
    request: { stdin: Buffer.from([0xff, 10]) },
  },
  'a large input': {
    program: 'import sys\nprint(sum(map(len, sys.stdin)))\n',
    request: { stdin: Buffer.alloc(3 * MB, 'line\n') },
  },
  'an input that it does not read': { program: 'print(1)\n', request: { stdin: Buffer.alloc(3 * MB) } },
  'modules beside it': { program: 'import enum, helper\nprint(helper.text, helper.__file__, enum.mark)\n' },
  'processes that multiprocessing spawns': { program: SPAWN, arguments: 'x', env: { GIVEN: 'value' } },
  'a variable with the name of ours': {
    program:
      'import os, subprocess, sys\nprint(os.environ["PLATFORM_STANDBY"])\nsubprocess.run([sys.executable, "-c", "print(1)"])\n',
    env: { PLATFORM_STANDBY: '3 3' },
  },
  'threads that outlive its end': {
    program:
      'import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()\nprint("main")\n',
  },
  'a fault of the interpreter': {
    program: 'import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)\n',
  },
  'more processor time than its limit': { program: 'while True: pass\n' },
  'more memory than its limit': { program: 'import time\nkept = b"x" * (700 << 20)\ntime.sleep(60)\n' },
  'a deadline': {
    program: 'import time\nprint("begun", flush=True)\ntime.sleep(60)\n',
    request: { timeoutMs: 1500 },
  },
};

/** Returns whether a program's interpreter was started before its call. Its first environment shows that. */
const ASK = `print('PLATFORM_STANDBY' in open('/proc/self/environ').read())\n`;

/**
 * Rules for interpreters that start before their program is called: the program cannot tell.
 * @param create Returns a sandbox with a cache of its own that starts this many in advance.
 */
export function standbyConformance(
  create: (prestart: number) => Promise<Sandbox>,
  { blobs, isRoot }: { blobs: Blobs; isRoot: boolean },
): void {
  describe('a Python program whose interpreter waited for it', { timeout: 60_000 }, () => {
    let ahead: Sandbox;
    let fresh: Sandbox;
    let idle: Sandbox;
    /** A program that is called once, before all tests. */
    let forgotten: Published;
    beforeAll(async () => {
      [ahead, fresh, idle] = [await create(1), await create(0), await create(2)];
      forgotten = await publish({ program: ASK });
      await run(idle, forgotten);
      await waitsNow(forgotten);
    }, 30_000);
    afterAll(() => Promise.all([ahead?.close(), fresh?.close(), idle?.close()]));

    /** Publishes a program under a command of its own. */
    const publish = async ({ program, options = '', arguments: rest = '' }: Case) => {
      const name = randomUUID();
      const bundle = `bundles/${name}.zip`;
      const files: Record<string, string> = {
        [`main-${name}.py`]: program,
        'helper.py': 'text = "help"\n',
        'enum.py': `import importlib.util\nmark = "own"\nspec = importlib.util.find_spec("re")\n`,
      };
      // Only some programs can live with an enum of their own.
      if (!program.includes('enum.mark')) delete files['enum.py'];
      await blobs.put(bundle, zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
      return { bundle, command: `python3 ${options}main-${name}.py ${rest}`.trim() };
    };
    type Published = Awaited<ReturnType<typeof publish>>;

    const run = async (
      sandbox: Sandbox,
      { bundle, command }: Published,
      { env = {}, request = {}, files = {} }: Pick<Case, 'env' | 'request'> & { files?: Record<string, string> } = {},
      limits: Partial<SandboxSpec['limits']> = {},
    ): Promise<Ran> => {
      const spec = specOf({ bundle, env, isOneCommand: true });
      const session = await sandbox.open({ ...spec, limits: { ...spec.limits, cpuSeconds: 2, ...limits } });
      try {
        for (const [path, content] of Object.entries(files)) await session.writeFile(path, Buffer.from(content));
        return await ran(session, command, { stdin: Buffer.from('{}'), ...request });
      } finally {
        await session.close();
      }
    };
    const outcome = ({ out, err, exit: { reason, exitCode } }: Ran) => ({
      ...{ out, reason, exitCode },
      err: err.replace(/thread 0x\w+/, 'thread'),
    });

    /** Returns the process that waits for a program on this machine. */
    const waiting = ({ command }: Published): number | undefined =>
      readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map(Number)
        .find((pid) => {
          try {
            return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim() === command;
          } catch {
            return false;
          }
        });
    const waitsNow = (published: Published) =>
      vi.waitFor(() => {
        const pid = waiting(published);
        expect(pid).toBeDefined();
        return pid!;
      }, 2000);
    /** Calls a program, after which an interpreter waits for the next call. Returns that process. */
    const prepare = (published: Published) =>
      vi.waitFor(async () => {
        // While a sandbox starts ahead for an earlier test, none does for this one.
        if (waiting(published) === undefined) await run(ahead, published, { request: { timeoutMs: 1 } });
        return waitsNow(published);
      }, 20_000);

    test.each(Object.entries(CASES))('gives the same: %s', async (_, given) => {
      const published = await publish(given);
      await prepare(published);
      const [one, other] = await Promise.all([run(ahead, published, given), run(fresh, published, given)]);
      expect(outcome(one)).toEqual(outcome(other));
    });

    test('waits for one call only, and the next interpreter knows nothing of it', async () => {
      const published = await publish({ program: ASK });
      const first = await run(ahead, published);
      expect(first.out).toBe('False\n');
      const pids = new Set<number>();
      for (const secret of ['one', 'two']) {
        const pid = await prepare(published);
        pids.add(pid);
        if (isRoot) expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toMatch(/SECRET|one|two/);
        expect((await run(ahead, published, { env: { SECRET: secret } })).out).toBe('True\n');
      }
      expect(pids.size).toBe(2);
    });

    test('is used with arguments, options, many variables and a large input', async () => {
      const published = await publish({ program: ASK, options: '-u ', arguments: 'one --two 2' });
      await prepare(published);
      const given = { env: { LONG: 'x'.repeat(100_000), GIVEN: 'é' }, request: { stdin: Buffer.alloc(3 * MB) } };
      expect((await run(ahead, published, given)).out).toBe('True\n');
    });

    test('is still used after files were written', async () => {
      const published = await publish({ program: `${ASK}print(open('/home/user/a.txt').read())` });
      await prepare(published);
      expect((await run(ahead, published, { files: { 'a.txt': 'text' } })).out).toBe('True\ntext\n');
    });

    test.each<[string, Parameters<typeof run>[2] & {}]>([
      ['a variable of Python', { env: { PYTHONUTF8: '0' } }],
      ['a path of Python', { env: { PYTHONPATH: '/tmp' } }],
      ['a locale', { env: { LC_ALL: 'C' } }],
      ['a time zone', { env: { TZ: 'Asia/Tokyo' } }],
      ['a library to load', { env: { LD_PRELOAD: '' } }],
      ['a variable that shells set', { env: { SHLVL: '7' } }],
      ['no input', { request: { stdin: undefined } }],
      ['packages of the user', { files: { '.local/lib/x': '' } }],
    ])('starts anew with %s', async (_, given) => {
      const published = await publish({ program: ASK });
      await prepare(published);
      expect((await run(ahead, published, given)).out).toBe('False\n');
    });

    test('starts anew for another command of the same bundle', async () => {
      const published = await publish({ program: ASK });
      await prepare(published);
      expect((await run(ahead, { ...published, command: `${published.command} more` })).out).toBe('False\n');
    });

    test.each(['python3 -I', 'python3 -S', 'python3 -X utf8', 'env python3', 'python3 -m'])(
      'never waits as `%s`',
      async (start) => {
        const published = await publish({ program: ASK });
        const command = published.command.replace('python3', start);
        const other = { ...published, command: start.endsWith('-m') ? command.replace('.py', '') : command };
        await run(ahead, other);
        const { out } = await run(ahead, other);
        expect(out).toBe('False\n');
      },
    );

    test.skipIf(!isRoot)('starts anew when the interpreter has died', async () => {
      const published = await publish({ program: ASK });
      const pid = await prepare(published);
      process.kill(pid, 'SIGKILL');
      // Init may collect it only with the next request.
      const hasEnded = () => !existsSync(`/proc/${pid}`) || readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
      await vi.waitFor(() => expect(hasEnded()).toBe(true), 10_000);
      expect((await run(ahead, published)).out).toBe('False\n');
    });

    test('can be cancelled', async () => {
      const published = await publish({ program: 'import time\ntime.sleep(60)\n' });
      await prepare(published);
      const { exit } = await run(ahead, published, { request: { signal: AbortSignal.timeout(300) } });
      expect(exit.reason).toBe('aborted');
    });

    test('ends when no call comes for a minute, and the next call starts anew', { timeout: 90_000 }, async () => {
      await vi.waitFor(() => expect(waiting(forgotten)).toBeUndefined(), { timeout: 70_000, interval: 500 });
      expect((await run(idle, forgotten)).out).toBe('False\n');
    });
  });
}
